// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The kernel side: one object, loaded as it is on every kernel from 6.1 on.
//!
//! One file per thing that the kernel does:
//! - `switch`: a CPU goes from one task to the next. Run-queue wait, IO wait, who ran meanwhile.
//! - `union`: wall time in which somebody waited, per CPU and for every cgroup level.
//! - `throttle`: quotas. What of a wait is nobody else's fault.
//! - `stall`: memory stalls by cause. `reclaim`, `limit`: whose limit, and the way without fentry.
//! - `rare`: OOM kills, births and deaths of cgroups, exits.
//!
//! `layout` knows where the running kernel keeps its members, `maps` is all that is shared.
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

/// Does nothing: attached alone it shows what any attached program costs on this machine.
#[btf_tracepoint(function = "sched_switch")]
pub(crate) fn empty(_: BtfTracePointContext) -> i32 {
    0
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Never reached: the verifier proves that every loop ends, and this one would not.
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
