//! Frames of zstd as they lie in a file: frames and their blocks tell their length (RFC 8878, 3.1).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::{MAGIC, OVERLAP, WINDOW};

/// Where the frames begin, from the one at `from` to the byte `end`. A frame that is still being written
/// has no end yet.
pub(super) fn walked(file: &File, from: u64, end: u64) -> io::Result<Vec<u64>> {
    let mut begins = vec![from];
    while let Some(at) = begins.last().map(|at| frame_end(file, *at)).transpose()?.flatten()
        && at < end
    {
        begins.push(at);
    }
    Ok(begins)
}

/// What is in the file from byte `from` on, as far as frames begin in it before the byte `end`.
pub(super) fn window(file: &File, from: u64, end: u64) -> io::Result<Vec<u8>> {
    let most = usize::try_from(end - from).unwrap_or(WINDOW).saturating_add(OVERLAP);
    let mut window = vec![0; most.min(WINDOW)];
    let n = file.read_at(&mut window, from)?;
    window.truncate(n);
    Ok(window)
}

/// Where the frame ends that begins at byte `from`; `None` if it does not end, or is none.
pub(in crate::record) fn frame_end(file: &File, from: u64) -> io::Result<Option<u64>> {
    match walk(file, from) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        other => other,
    }
}

fn walk(file: &File, from: u64) -> io::Result<Option<u64>> {
    let mut head = [0; 5];
    file.read_exact_at(&mut head, from)?;
    if head[..4] != MAGIC {
        return Ok(None);
    }
    let descriptor = head[4];
    let is_single = descriptor & 0x20 != 0;
    let has_checksum = descriptor & 0x04 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 0x03)];
    let content = match descriptor >> 6 {
        0 => u64::from(is_single),
        more => 1 << more,
    };
    let mut at = from + 5 + u64::from(!is_single) + dictionary + content;
    loop {
        let mut block = [0; 4];
        file.read_exact_at(&mut block[..3], at)?;
        let block = u32::from_le_bytes(block);
        let is_run = (block >> 1) & 0x03 == 1;
        at += 3 + if is_run { 1 } else { u64::from(block >> 3) };
        if block & 1 == 1 {
            return Ok(Some(at + if has_checksum { 4 } else { 0 }));
        }
    }
}
