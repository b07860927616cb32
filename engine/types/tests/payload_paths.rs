//! Copied values equal shared ones and own their memory.

use bytes::Bytes;
use quorate_types::codec::{decode_message, decode_message_by, encode_message};
use quorate_types::{Bundle, BundleBuilder, ClientId, ClientRequest, Height, PayloadPath};

fn bundle() -> Bundle {
    let client = ClientId(5 << 16);
    let mut builder = BundleBuilder::new(client, Height(9));
    for sequence in 1..=3 {
        builder.push(client, sequence, &vec![sequence as u8; 100 * sequence as usize]);
    }
    builder.finish()
}

fn is_within(part: &[u8], whole: &Bytes) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

#[test]
fn a_copied_bundle_is_equal_and_shares_no_memory_with_the_frame() {
    let frame = encode_message(&ClientRequest::Submit(bundle()));
    let decoded = |path| match decode_message_by(frame.clone(), path) {
        Ok(ClientRequest::Submit(bundle)) => bundle,
        other => panic!("{other:?}"),
    };
    let (shared, copied) = (decoded(PayloadPath::Shared), decoded(PayloadPath::Copied));
    assert!(shared == bundle() && copied == bundle());
    assert!(is_within(shared.body(), &frame) && !is_within(copied.body(), &frame));
    assert_eq!(copied.commands().map(|command| command.payload.len()).collect::<Vec<_>>(), [100, 200, 300]);
    assert_eq!(decode_message::<ClientRequest>(frame.clone()), decode_message_by(frame, PayloadPath::Copied));
}

#[test]
fn damage_is_found_on_either_path() {
    let frame = encode_message(&ClientRequest::Submit(bundle()));
    for cut in 0..frame.len() {
        let [shared, copied] = [PayloadPath::Shared, PayloadPath::Copied]
            .map(|path| decode_message_by::<ClientRequest>(frame.slice(..cut), path));
        assert!(shared.is_err() && shared == copied, "cut at {cut}: {copied:?}");
    }
}
