use super::*;

#[test]
fn instead_of_thin_deletes_the_oldest_of_a_full_disk() {
    use io::ErrorKind::{AlreadyExists, Other, QuotaExceeded, StorageFull};
    #[rustfmt::skip]
    let table = [
        // why the segment 7 was not thinned, what is deleted of 3 to 9
        (StorageFull,   3),
        (QuotaExceeded, 3),
        (Other,         7), // it cannot be read
        (AlreadyExists, 7), // a file of another kind has the name
    ];
    for (why, want) in table {
        assert_eq!(instead_of_thin(&why.into(), 3, 7), want, "{why:?}");
    }
}
