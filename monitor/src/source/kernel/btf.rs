//! Reads the running kernel's type information: offsets of members, types of arguments.
//! In: the bytes of `/sys/kernel/btf/vmlinux`. Out: offsets. Format: Documentation/bpf/btf.rst.
//!
//! Hand-made, because `aya_obj::btf::Btf` keeps members private and the other readers of BTF are
//! LGPL or unmaintained.

use std::collections::HashMap;

/// Why the kernel's type information cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BtfError {
    /// Not BTF, or of another byte order.
    #[error("not BTF: magic {0:#06x}")]
    Magic(u16),
    #[error("BTF ends at byte {0} in the middle of a type")]
    Short(usize),
    /// The kernel is newer than this reader.
    #[error("unknown BTF kind {0}")]
    Kind(u32),
}

const MAGIC: u16 = 0xeb9f;
const PTR: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC_PROTO: u32 = 13;
const TYPE_TAG: u32 = 18;

/// Members examined for one path. The kernel's largest structs have some hundreds; damaged input
/// may have structs that contain each other.
const MAX_MEMBERS: u32 = 1 << 16;

/// The place of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// Bytes from the start of the outermost struct.
    pub offset: u32,
    /// The bits of a bit field within one byte; 0 if it is no bit field.
    pub mask: u32,
}

/// The parsed type information; borrows the bytes.
pub(super) struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Byte offset of each type's record; type 0 is `void`.
    at: Vec<u32>,
    /// Structs (unions included), typedefs and enums, by kind and name.
    named: HashMap<(u32, &'a [u8]), u32>,
}

/// One type's record.
#[derive(Clone, Copy)]
struct Record {
    name: u32,
    kind: u32,
    /// Number of members.
    n: usize,
    /// Member offsets include the size of a bit field.
    has_bit_sizes: bool,
    refers_to: u32,
    /// Byte offset of the first member.
    members: usize,
}

impl<'a> Btf<'a> {
    /// Indexes the types.
    ///
    /// # Errors
    /// If the bytes are not BTF, are cut short, or hold an unknown kind: then no offset can be
    /// trusted, and no program may be loaded.
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, BtfError> {
        let short = || BtfError::Short(data.len());
        let header: &[u8] = data.get(..24).ok_or_else(short)?;
        let magic = u16::from_le_bytes([header[0], header[1]]);
        if magic != MAGIC {
            return Err(BtfError::Magic(magic));
        }
        let field = |at: usize| word(header, at).map(|w| w as usize).ok_or_else(short);
        let base = field(4)?;
        let section = |offset: usize, length: usize| {
            let start = base.checked_add(offset).ok_or_else(short)?;
            data.get(start..start.checked_add(length).ok_or_else(short)?).ok_or_else(short)
        };
        let (types, strings) = (section(field(8)?, field(12)?)?, section(field(16)?, field(20)?)?);
        let mut btf = Self { types, strings, at: vec![0], named: HashMap::new() };
        btf.index()?;
        Ok(btf)
    }

    fn index(&mut self) -> Result<(), BtfError> {
        let mut at = 0;
        while at < self.types.len() {
            let record = self.record(at).ok_or(BtfError::Short(at))?;
            let id = u32::try_from(self.at.len()).map_err(|_| BtfError::Short(at))?;
            self.at.push(u32::try_from(at).map_err(|_| BtfError::Short(at))?);
            at = record.members + extra(record.kind, record.n)?;
            let kind = if record.kind == UNION { STRUCT } else { record.kind };
            let name = self.name(record.name);
            if matches!(kind, STRUCT | TYPEDEF | ENUM) && !name.is_empty() {
                self.named.entry((kind, name)).or_insert(id);
            }
        }
        if at == self.types.len() { Ok(()) } else { Err(BtfError::Short(at)) }
    }

    fn record(&self, at: usize) -> Option<Record> {
        let info = word(self.types, at + 4)?;
        Some(Record {
            name: word(self.types, at)?,
            kind: (info >> 24) & 0x1f,
            n: (info & 0xffff) as usize,
            has_bit_sizes: info >> 31 == 1,
            refers_to: word(self.types, at + 8)?,
            members: at + 12,
        })
    }

    fn of(&self, id: u32) -> Option<Record> {
        let at = self.at.get(id as usize).filter(|_| id != 0)?;
        self.record(*at as usize)
    }

    fn named(&self, kind: u32, name: &str) -> Option<Record> {
        self.of(*self.named.get(&(kind, name.as_bytes()))?)
    }

    fn name(&self, at: u32) -> &'a [u8] {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The type itself, without typedefs and qualifiers.
    fn bare(&self, mut id: u32) -> Option<Record> {
        // A chain of qualifiers is short; damaged input may go round in a circle.
        for _ in 0..32 {
            let record = self.of(id)?;
            match record.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => id = record.refers_to,
                _ => return Some(record),
            }
        }
        None
    }

    /// A member by dotted path (`se.cfs_rq`), through embedded and anonymous structs.
    pub(super) fn member(&self, of: &str, path: &str) -> Option<Member> {
        let mut record = self.named(STRUCT, of)?;
        let (mut bits, mut size) = (0u32, 0u32);
        let mut left = MAX_MEMBERS;
        for name in path.split('.') {
            let (offset, width, id) = self.find(record, name.as_bytes(), 8, &mut left)?;
            bits = bits.checked_add(offset)?;
            size = width;
            record = self.bare(id).unwrap_or(record);
        }
        let mask = if size == 0 { 0 } else { ((1u32 << size.min(8)) - 1) << (bits % 8) };
        (size != 0 || bits % 8 == 0).then_some(Member { offset: bits / 8, mask })
    }

    /// Offset and width in bits, and the type, of a direct member or one of an anonymous struct.
    fn find(
        &self,
        record: Record,
        name: &[u8],
        depth: u32,
        left: &mut u32,
    ) -> Option<(u32, u32, u32)> {
        if !matches!(record.kind, STRUCT | UNION) || depth == 0 {
            return None;
        }
        for i in 0..record.n {
            *left = left.checked_sub(1)?;
            let at = record.members + 12 * i;
            let (member, id) = (word(self.types, at)?, word(self.types, at + 4)?);
            let place = word(self.types, at + 8)?;
            let (offset, width) =
                if record.has_bit_sizes { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
            if self.name(member) == name {
                return Some((offset, width, id));
            }
            if member == 0
                && let Some(inner) = self.bare(id)
                && let Some((more, width, id)) = self.find(inner, name, depth - 1, left)
            {
                return Some((offset.checked_add(more)?, width, id));
            }
        }
        None
    }

    /// Whether a tracepoint's argument (0 is the first that is traced) is a pointer.
    pub(super) fn tracepoint_takes_pointer(&self, name: &str, argument: usize) -> Option<bool> {
        let typedef = *self.named.get(&(TYPEDEF, format!("btf_trace_{name}").as_bytes()))?;
        let proto = self.of(self.bare(typedef)?.refers_to)?;
        // The first parameter is the tracepoint's own data.
        let at = proto.members + 8 * (argument + 1);
        if proto.kind != FUNC_PROTO || argument + 1 >= proto.n {
            return None;
        }
        Some(self.bare(word(self.types, at + 4)?)?.kind == PTR)
    }

    /// The value of an enumerator.
    pub(super) fn enumerator(&self, of: &str, name: &str) -> Option<u32> {
        let record = self.named(ENUM, of)?;
        (0..record.n).map(|i| record.members + 8 * i).find_map(|at| {
            let is_it = self.name(word(self.types, at)?) == name.as_bytes();
            is_it.then(|| word(self.types, at + 4)).flatten()
        })
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")))
}

/// Bytes after the record of a type with `n` members. Kinds: `BTF_KIND_*`,
/// include/uapi/linux/btf.h.
fn extra(kind: u32, n: usize) -> Result<usize, BtfError> {
    Ok(match kind {
        1 | 14 | 17 => 4,                   // INT, VAR, DECL_TAG
        3 => 12,                            // ARRAY
        STRUCT | UNION | 15 | 19 => 12 * n, // DATASEC, ENUM64
        ENUM | FUNC_PROTO => 8 * n,
        PTR | 7..=12 | 16 | TYPE_TAG => 0, // FWD to FUNC, FLOAT
        unknown => return Err(BtfError::Kind(unknown)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INT: u32 = 1;
    const FUNC: u32 = 12;

    /// Builds BTF by hand: a struct with an anonymous struct and a bit field, a function, a
    /// tracepoint and an enum.
    fn small() -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut text = |s: &str| {
            let at = strings.len() as u32;
            strings.extend(s.as_bytes());
            strings.push(0);
            at
        };
        let info = |kind: u32, n: u32, flag: u32| (flag << 31) | (kind << 24) | n;
        let mut types: Vec<u32> = Vec::new();
        types.extend([text("int"), info(INT, 0, 0), 4, 32]); // 1
        types.extend([0, info(STRUCT, 1, 0), 8, text("deep"), 1, 32]); // 2, anonymous
        let task = [text("task"), info(STRUCT, 3, 1), 24];
        types.extend(task); // 3
        types.extend([text("pid"), 1, 64, 0, 2, 96, text("flag"), 1, (1 << 24) | 163]);
        types.extend([text("work"), info(FUNC, 0, 0), 5]); // 4
        types.extend([0, info(FUNC_PROTO, 3, 0), 0, 0, 6, 0, 1, 0, 6]); // 5
        types.extend([0, info(PTR, 0, 0), 3]); // 6
        types.extend([text("btf_trace_tick"), info(TYPEDEF, 0, 0), 8]); // 7
        types.extend([0, info(PTR, 0, 0), 5]); // 8
        types.extend([text("ids"), info(ENUM, 1, 0), 4, text("memory_id"), 7]); // 9
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let lengths = [24u32, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        let mut data = vec![0x9f, 0xeb, 1, 0];
        data.extend(lengths.iter().flat_map(|word| word.to_le_bytes()));
        data.extend(types);
        data.extend(strings);
        data
    }

    #[test]
    fn btf_finds_members_arguments_and_enumerators() {
        let data = small();
        let btf = Btf::parse(&data).unwrap();
        assert_eq!(btf.member("task", "pid"), Some(Member { offset: 8, mask: 0 }));
        assert_eq!(btf.member("task", "deep"), Some(Member { offset: 16, mask: 0 }));
        assert_eq!(btf.member("task", "flag"), Some(Member { offset: 20, mask: 0b1000 }));
        assert_eq!(btf.member("task", "gone"), None);
        assert_eq!(btf.member("gone", "pid"), None);
        assert_eq!(btf.tracepoint_takes_pointer("tick", 0), Some(false));
        assert_eq!(btf.tracepoint_takes_pointer("tick", 1), Some(true));
        assert_eq!(btf.tracepoint_takes_pointer("tick", 2), None);
        assert_eq!(btf.enumerator("ids", "memory_id"), Some(7));
    }

    #[test]
    fn btf_refuses_damaged_input() {
        let data = small();
        for end in 0..data.len() {
            // Cut strings lose names; cut types are noticed.
            let _ = Btf::parse(&data[..end]).map(|btf| btf.member("task", "pid"));
        }
        assert!(matches!(
            Btf::parse(b"\x7fELF and what follows it").err(),
            Some(BtfError::Magic(_))
        ));
        let mut unknown = data.clone();
        unknown[24 + 7] = 31;
        assert_eq!(Btf::parse(&unknown).err(), Some(BtfError::Kind(31)));
    }

    #[test]
    fn btf_member_ends_on_recursive_structs() {
        let strings = b"\0task\0";
        let mut types = vec![1, (STRUCT << 24) | 500, 8];
        // 500 members without a name, each of the struct itself.
        types.extend([0, 1, 0].repeat(500));
        let lengths = [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32];
        let mut data = vec![0x9f, 0xeb, 1, 0];
        data.extend(lengths.iter().chain(&types).flat_map(|word| word.to_le_bytes()));
        data.extend(strings);
        assert_eq!(Btf::parse(&data).unwrap().member("task", "pid"), None);
    }

    proptest! {
        #[test]
        fn btf_never_panics(at in 24usize..300, byte: u8) {
            let mut data = small();
            let end = data.len() - 1;
            data[at.min(end)] = byte;
            if let Ok(btf) = Btf::parse(&data) {
                let _ = (btf.member("task", "deep"), btf.tracepoint_takes_pointer("tick", 0));
                let _ = btf.enumerator("ids", "memory_id");
            }
        }
    }
}
