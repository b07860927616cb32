//! The adapter of state machines as an application: commands, snapshots, and bytes from strangers.

use crate::{Counter, add};
use quorate::{ApplicationKind, BlockContext, Command, Factory, StateMachine, kind, register};
use quorate_types::{ClientId, Height};

fn executed(application: &mut dyn quorate::Application, payload: &[u8]) -> Vec<u8> {
    let mut result = Vec::new();
    let command = Command { client: ClientId(1), sequence: 1, payload };
    application.execute(&BlockContext::untimed(Height(1)), &command, &mut result);
    result
}

#[test]
fn a_snapshot_restores_the_state_and_later_commands_do_not_change_it() {
    let mut application = kind::<Counter>().make();
    let command = |amount| postcard::to_stdvec(&add(amount)).expect("it encodes");
    executed(&mut *application, &command(7));
    let frozen = application.freeze();
    executed(&mut *application, &command(1));
    let snapshot = frozen();
    let mut other = kind::<Counter>().make();
    other.restore(snapshot.clone()).expect("the snapshot is sound");
    assert_eq!(other.snapshot(), snapshot);
    assert_eq!(executed(&mut *other, &command(1)), executed(&mut *kind_after(7), &command(1)));
    assert_ne!(application.snapshot(), snapshot);
}

fn kind_after(amount: u64) -> Box<dyn quorate::Application> {
    let mut application = kind::<Counter>().make();
    executed(&mut *application, &postcard::to_stdvec(&add(amount)).expect("it encodes"));
    application
}

#[test]
fn foreign_bytes_change_nothing_and_never_panic() {
    let mut application = kind_after(7);
    let before = application.snapshot();
    let sound = postcard::to_stdvec(&add(7)).expect("it encodes");
    let junk: Vec<Vec<u8>> = (0..sound.len()).map(|end| sound[..end].to_vec()).chain([vec![0xff; 100]]).collect();
    for bytes in &junk {
        let result = executed(&mut *application, bytes);
        assert_eq!(result, [1], "the client is told that the command is malformed");
        application.query(bytes);
    }
    for bytes in (0..before.len()).map(|end| before.slice(..end)) {
        application.restore(bytes).expect_err("a part of a snapshot");
    }
    let longer = [&before[..], &[0]].concat();
    application.restore(longer.into()).expect_err("more than a snapshot");
    assert_eq!(application.snapshot(), before);
}

#[test]
fn names_belong_to_one_application() {
    let counter = register::<Counter>().expect("the name is free");
    assert_eq!(register::<Counter>().expect("it is the same"), counter);
    assert_eq!("counter".parse::<ApplicationKind>().expect("it is registered"), counter);
    static TAKEN: Factory = Factory { name: "kv", make: || unreachable!() };
    static OTHER: Factory = Factory { name: "counter", make: || unreachable!() };
    static MALFORMED: Factory = Factory { name: "My App", make: || unreachable!() };
    for factory in [&TAKEN, &OTHER, &MALFORMED] {
        let error = ApplicationKind::register(factory).expect_err("refused").to_string();
        assert!(error.contains(factory.name), "{error}");
    }
    assert_eq!(kind::<Counter>().make().name(), Counter::NAME);
}
