//! Squeezes that another program changes or undoes.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use isobar::act::Actuator;
use isobar_core::model::decision::OutcomeResult::Done;

use super::files::{CPU, DISK, Tree, in_force};
use super::place::{actor_of, options};

#[test]
fn squeeze_changed_by_others() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let (mut actor, _state) = actor_of(tree.root.path());
    #[rustfmt::skip]
    let table = [
        // what stands there at the release, what is said of it
        ("100", "/busy/cpu.weight stands at 100 again"),
        ("50",  "/busy/cpu.weight is left at 50: another writer has changed 10"),
    ];
    for (stands, told) in table {
        actor.take(&tree.squeeze(7, CPU, None));
        fs::write(tree.dir.join("cpu.weight"), format!("{stands}\n")).unwrap();
        let outcome = tree.release(&mut actor, 7);
        assert_eq!((outcome.result, &*outcome.detail), (Done, told));
        assert_eq!((tree.says("cpu.weight").as_str(), in_force(&actor)), (stands, vec![]));
    }
    // Held again, it is theirs that comes back.
    actor.take(&tree.squeeze(8, CPU, None));
    assert_eq!(tree.says("cpu.weight"), "5");
    tree.release(&mut actor, 8);
    assert_eq!(tree.says("cpu.weight"), "50");
}

/// As where the ledger could not be written when the squeeze was taken back.
#[test]
fn squeeze_that_was_taken_back_is_not_written_again_by_the_next_agent() {
    let tree = Tree::new(&[("cpu.weight", "100")]);
    let (mut first, state) = actor_of(tree.root.path());
    first.take(&tree.squeeze(7, CPU, None));
    // By then the kernel has taken what was written.
    sleep(Duration::from_millis(3_200));
    drop(first);
    fs::write(tree.dir.join("cpu.weight"), "100\n").unwrap();
    let next = Actuator::open(options(tree.root.path(), state.path())).unwrap();
    assert_eq!((tree.says("cpu.weight").as_str(), in_force(&next)), ("100", vec![]));
}

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
            sleep(Duration::from_secs(seconds));
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
