//! The eBPF object that the build put into the agent.

use std::io::Read as _;

use flate2::read::GzDecoder;

/// The object that the build embedded, packed to a sixth; empty if the build had no eBPF toolchain.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probes.o"));

/// The licence of the programs in it, as its crate states it.
pub const OBJECT_LICENSE: &str = "GPL-2.0-only OR MIT";

/// Whether the build embedded an object.
pub(in super::super) fn is_built() -> bool {
    !PACKED.is_empty()
}

/// Bytes of the embedded object, and their SHA-256; `None` if the build embedded none.
pub fn object() -> Option<(usize, &'static str)> {
    let size = option_env!("ISOBAR_EBPF_BYTES")?.parse().ok()?;
    Some((size, option_env!("ISOBAR_EBPF_SHA256")?))
}

pub(super) fn unpacked() -> Vec<u8> {
    let mut object = Vec::new();
    GzDecoder::new(PACKED).read_to_end(&mut object).expect("the build has packed it");
    object
}
