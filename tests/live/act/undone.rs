//! Squeezes that another program undoes.

use std::fs;
use std::thread;
use std::time::Duration;

use isobar_core::model::decision::OutcomeResult::Done;

use super::files::{DISK, Tree};
use super::place::actor_of;

/// As systemd does with pods' slices when it is reloaded.
#[test]
fn squeeze_that_another_program_undoes_is_written_once_more_and_then_over() {
    let weights = [("cpu.weight", "100"), ("io.weight", "default 200")];
    type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, bool, &'a str);
    #[rustfmt::skip]
    let table: [Row<'_>; 4] = [
        // what another program writes; cpu.weight after the first time; after the second whether the squeeze is in
        // force still, and cpu.weight once it was taken back
        (&[],                                                  "10", true,  "100"),
        (&weights[..1],                                        "10", true,  "100"), // io.weight is squeezed still
        (&weights,                                             "10", false, "100"),
        (&[("cpu.weight", "77"), ("io.weight", "default 77")], "77", true,  "77"),
    ];
    for (others, after, want, left) in table {
        let tree = Tree::new(&weights);
        let (mut actor, _state) = actor_of(tree.root.path());
        assert_eq!(actor.take(&tree.squeeze(7, DISK, None)).result, Done);
        assert_eq!(tree.says("cpu.weight"), "10");
        for (seconds, says) in [(4, after), (2, others.first().map_or("10", |one| one.1))] {
            for (file, text) in others {
                fs::write(tree.dir.join(file), format!("{text}\n")).unwrap();
            }
            thread::sleep(Duration::from_secs(seconds));
            actor.poll();
            assert_eq!(tree.says("cpu.weight"), says, "{others:?}");
        }
        assert_eq!(actor.in_force().len(), usize::from(want), "{others:?}");
        if want {
            tree.release(&mut actor, 7);
        }
        assert_eq!(tree.says("cpu.weight"), left, "{others:?}");
    }
}
