//! Reads the eviction preference in the extended attributes of a cgroup's directory.
//!
//! Source: systemd.resource-control(5), `ManagedOOMPreference=`, which systemd writes as
//! `user.oomd_avoid` and `user.oomd_omit` (`oomd_fetch_cgroup_oom_preference`,
//! src/oom/oomd-util.c); oomd's src/oomd/util/Fs.h for `trusted.oomd_prefer` and
//! `trusted.oomd_avoid`. Each is taken from either namespace. cgroup2 has `user.` attributes since
//! Linux 5.7.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{fgetxattr, flistxattr};
use rustix::io::Errno;

use isobar_core::model::cgroup::Preference;

/// Of several that are set, the first in this list counts: to be spared outranks to be preferred.
const NAMES: [(&CStr, Preference); 6] = [
    (c"user.oomd_omit", Preference::Omit),
    (c"trusted.oomd_omit", Preference::Omit),
    (c"user.oomd_avoid", Preference::Avoid),
    (c"trusted.oomd_avoid", Preference::Avoid),
    (c"user.oomd_prefer", Preference::Prefer),
    (c"trusted.oomd_prefer", Preference::Prefer),
];
/// What systemd takes for true (`parse_boolean`); it writes `1`.
const TRUE: [&str; 6] = ["1", "yes", "y", "true", "t", "on"];

/// The preference of an open cgroup. Most have no attributes, which one system call shows.
pub(super) fn preference(dir: BorrowedFd<'_>) -> Option<Preference> {
    let mut buffer = [0_u8; 1024];
    let listed = match flistxattr(dir, &mut buffer[..]) {
        Ok(length) => Some(&buffer[..length]),
        // More than fit: each is read.
        Err(Errno::RANGE) => None,
        // The file system has none, or hides them.
        Err(_) => return None,
    };
    let is_listed = |name: &CStr| {
        listed.is_none_or(|names| names.split(|byte| *byte == 0).any(|n| n == name.to_bytes()))
    };
    let mut set = NAMES.iter().filter(|(name, _)| is_listed(name) && is_true(dir, name));
    set.next().map(|(_, preference)| *preference)
}

fn is_true(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    let mut buffer = [0_u8; 16];
    let Ok(length) = fgetxattr(dir, name, &mut buffer[..]) else { return false };
    let text = String::from_utf8_lossy(&buffer[..length]);
    TRUE.iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::fs::{XattrFlags, fsetxattr};

    use super::*;

    #[test]
    fn preference_ranks_omit_before_prefer() {
        type Row<'a> = (&'a [(&'a str, &'a str)], Option<Preference>);
        #[rustfmt::skip]
        let table: &[Row<'_>] = &[
            // attributes, preference
            (&[],                                                     None),
            (&[("user.oomd_avoid", "1")],                             Some(Preference::Avoid)),
            (&[("user.oomd_omit", "True")],                           Some(Preference::Omit)),
            (&[("user.oomd_prefer", "1"), ("user.oomd_avoid", "1")],  Some(Preference::Avoid)),
            (&[("user.oomd_omit", "0"), ("user.oomd_prefer", "yes")], Some(Preference::Prefer)),
            (&[("user.oomd_omit", "maybe")],                          None),
            (&[("user.oomd_omit", "1111111111111111111111111")],      None),
            (&[("user.oomd_kill", "1")],                              None),
            (&[("trusted.oomd_prefer", "1")],                         Some(Preference::Prefer)),
        ];
        for (attributes, want) in table {
            let dir = tempfile::tempdir().unwrap();
            let opened = File::open(dir.path()).unwrap();
            let set = attributes.iter().map(|(name, value)| {
                fsetxattr(&opened, *name, value.as_bytes(), XattrFlags::empty())
            });
            if let Some(errno) = set.filter_map(Result::err).next() {
                println!("skipped: {attributes:?} cannot be set here: {errno}");
                continue;
            }
            assert_eq!(preference(opened.as_fd()), *want, "{attributes:?}");
        }
    }

    #[test]
    fn preference_survives_a_long_attribute_list() {
        let dir = tempfile::tempdir().unwrap();
        let opened = File::open(dir.path()).unwrap();
        let names = (0..20).map(|n| format!("user.{n:0>60}")).chain(["user.oomd_omit".into()]);
        for name in names {
            if let Err(errno) = fsetxattr(&opened, name, b"1", XattrFlags::empty()) {
                println!("skipped: attributes cannot be set here: {errno}");
                return;
            }
        }
        assert_eq!(preference(opened.as_fd()), Some(Preference::Omit));
    }
}
