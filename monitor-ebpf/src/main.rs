// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The kernel side: one object for every kernel from 6.1 on.
//!
//! One file per activity of the kernel:
//! - `switch`: context switches. Run-queue wait, IO wait, which cgroups ran during a wait.
//! - `union`: wall time in which at least one task waited, per CPU and per cgroup level.
//! - `throttle`: quotas. Which part of a wait was throttled.
//! - `stall`: memory stalls by cause. `limit`: which cgroup's limit. `reclaim`: stalls without
//!   fentry.
//! - `rare`: OOM kills, creation and removal of cgroups, exits.
//!
//! `layout` has the member offsets of the running kernel, `maps` the maps that programs share.
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(internal_features, reason = "core has no atomics for this target but the intrinsics")]

mod climb;
mod layout;
mod limit;
mod maps;
mod rare;
mod reclaim;
mod stall;
mod switch;
mod throttle;
mod union;

use aya_ebpf::macros::btf_tracepoint;
use aya_ebpf::programs::BtfTracePointContext;

/// Does nothing: shows what any attached program costs on this machine.
#[btf_tracepoint(function = "sched_switch")]
pub(crate) fn empty(_: BtfTracePointContext) -> i32 {
    0
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Never reached: the verifier would reject this endless loop.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
