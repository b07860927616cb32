//! No signature has two meanings: different statements have different bytes.

use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::*;

/// Returns everything that a statement covers: only the subject of an attached certificate.
fn meaning(
    epoch: &EpochId,
    subject: &Subject,
    attachment: &Attachment,
) -> (EpochId, Subject, Option<Result<View, Subject>>) {
    let attached = match attachment {
        Attachment::None => None,
        Attachment::HighView(view) => Some(Ok(*view)),
        Attachment::HighCertificate(certificate) => Some(Err(certificate.subject)),
    };
    (*epoch, *subject, attached)
}

/// Values from small ranges, so that two statements often agree in most fields.
fn narrow_subject() -> impl Strategy<Value = Subject> {
    let digest = prop_oneof![Just(Digest::ZERO), Just(Digest([1; 32]))];
    (crate::common::domain(), 0u64..2, 0u64..2, digest).prop_map(|(domain, view, height, digest)| Subject {
        domain,
        view: View(view),
        height: Height(height),
        digest,
    })
}

fn certificate_on(subject: Subject) -> Certificate {
    Certificate { subject, signers: Signers::empty(), attachments: Vec::new(), proof: Bytes::new() }
}

fn narrow() -> impl Strategy<Value = (EpochId, Subject, Attachment)> {
    let epoch = (0u8..2).prop_map(|byte| EpochId(Digest([byte; 32])));
    let attachment = prop_oneof![
        Just(Attachment::None),
        (0u64..2).prop_map(|view| Attachment::HighView(View(view))),
        narrow_subject().prop_map(|subject| Attachment::HighCertificate(Box::new(certificate_on(subject)))),
    ];
    (epoch, narrow_subject(), attachment)
}

fn wide() -> impl Strategy<Value = (EpochId, Subject, Attachment)> {
    (crate::common::epoch(), crate::common::subject(), crate::common::attachment())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn equal_bytes_are_equal_statements(one in prop_oneof![narrow(), wide()], two in prop_oneof![narrow(), wide()]) {
        let bytes = |(epoch, subject, attachment): &(EpochId, Subject, Attachment)| {
            Statement::new(epoch, subject, attachment).as_bytes().to_vec()
        };
        let same = meaning(&one.0, &one.1, &one.2) == meaning(&two.0, &two.1, &two.2);
        prop_assert_eq!(bytes(&one) == bytes(&two), same);
    }

    #[test]
    fn every_field_is_signed(
        epoch in crate::common::epoch(),
        subject in crate::common::subject(),
        attachment in crate::common::attachment(),
    ) {
        let statement = |epoch: &EpochId, subject: &Subject, attachment: &Attachment| {
            Statement::new(epoch, subject, attachment).as_bytes().to_vec()
        };
        let mut seen = vec![statement(&epoch, &subject, &attachment)];
        let mut differs = |bytes: Vec<u8>| {
            assert!(!seen.contains(&bytes), "two statements with the same bytes");
            seen.push(bytes);
        };
        for bit in [0, 77, 255] {
            let flip = |digest: Digest| {
                let mut digest = digest;
                digest.0[bit / 8] ^= 1 << (bit % 8);
                digest
            };
            differs(statement(&EpochId(flip(epoch.0)), &subject, &attachment));
            differs(statement(&epoch, &Subject { digest: flip(subject.digest), ..subject }, &attachment));
        }
        for bit in [0, 31, 63] {
            differs(statement(&epoch, &Subject { view: View(subject.view.0 ^ 1 << bit), ..subject }, &attachment));
            let height = Height(subject.height.0 ^ 1 << bit);
            differs(statement(&epoch, &Subject { height, ..subject }, &attachment));
        }
        for domain in Domain::ALL {
            if domain != subject.domain {
                differs(statement(&epoch, &Subject { domain, ..subject }, &attachment));
            }
        }
        let other = subject.view.0.wrapping_add(1);
        for attached in [
            Attachment::None,
            Attachment::HighView(View(other)),
            Attachment::HighView(View(other ^ 1 << 63)),
            Attachment::HighCertificate(Box::new(certificate_on(Subject { view: View(other), ..subject }))),
            Attachment::HighCertificate(Box::new(certificate_on(Subject {
                view: View(other),
                digest: Digest([3; 32]),
                ..subject
            }))),
        ] {
            if meaning(&epoch, &subject, &attached) != meaning(&epoch, &subject, &attachment) {
                differs(statement(&epoch, &subject, &attached));
            }
        }
    }

    #[test]
    fn the_statement_of_a_vote_does_not_depend_on_the_voter(
        vote in crate::common::vote(),
        voter in any::<u16>(),
        epoch in crate::common::epoch(),
    ) {
        let other = Vote { voter: ReplicaId(voter), signature: Bytes::new(), ..vote.clone() };
        prop_assert!(vote.statement(&epoch).as_bytes() == other.statement(&epoch).as_bytes());
    }
}
