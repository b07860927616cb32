//! Packet headers and addresses.

use quorate_lab::emulation::{Header, MAX_ENDS, address_of, end_at, reflect};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// Returns a UDP datagram with valid checksums.
fn datagram(source: [u8; 4], destination: [u8; 4], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let length = 28 + payload.len();
    let mut packet = vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 1, 0, 0, 64, 17, 0, 0];
    packet.extend(source.into_iter().chain(destination));
    let header_sum = sum(&packet);
    packet[10..12].copy_from_slice(&(!header_sum).to_be_bytes());
    let mut udp: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    udp.extend(((length - 20) as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    packet.extend(udp);
    let sum = udp_sum(&packet);
    packet[26..28].copy_from_slice(&(!sum).to_be_bytes());
    packet
}

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// Returns the sum of the pseudo header and the datagram: all ones if the datagram's checksum is correct.
fn udp_sum(packet: &[u8]) -> u16 {
    let mut pseudo = packet[12..20].to_vec();
    pseudo.extend([0, 17]);
    pseudo.extend(((packet.len() - 20) as u16).to_be_bytes());
    pseudo.extend(&packet[20..]);
    sum(&pseudo)
}

#[test]
fn a_reflected_datagram_returns_with_valid_checksums() {
    let mut packet = datagram([10, 77, 0, 3], [10, 77, 255, 254], [40_000, 9], b"odd");
    assert_eq!((sum(&packet[..20]), udp_sum(&packet)), (0xffff, 0xffff), "the test's own checksums are right");
    reflect(&mut packet);
    assert_eq!((sum(&packet[..20]), udp_sum(&packet)), (0xffff, 0xffff));
    let header = Header::of(&packet).expect("a header");
    assert_eq!(header.destination, Ipv4Addr::new(10, 77, 0, 3));
    assert_eq!(header.flow.ports, [9, 40_000]);
    assert_eq!(&packet[28..], b"odd");
}

#[test]
fn fragments_and_other_protocols_have_no_ports() {
    let whole = datagram([10, 77, 0, 1], [10, 77, 0, 2], [1, 2], b"");
    assert_eq!(Header::of(&whole).expect("a header").flow.ports, [1, 2]);
    for bytes in [[0x20, 0], [0, 9]] {
        let mut fragment = whole.clone();
        fragment[6..8].copy_from_slice(&bytes);
        assert_eq!(
            Header::of(&fragment).expect("a header").flow.ports,
            [0, 0],
            "first and later fragments are one flow"
        );
    }
    let mut icmp = whole.clone();
    icmp[9] = 1;
    assert_eq!(Header::of(&icmp).expect("a header").flow.ports, [0, 0]);
}

#[test]
fn junk_has_no_header() {
    let whole = datagram([10, 77, 0, 1], [10, 77, 0, 2], [1, 2], b"");
    assert_eq!(Header::of(&[]), None);
    assert_eq!(Header::of(&whole[..19]), None);
    let mut six = whole.clone();
    six[0] = 0x65;
    assert_eq!(Header::of(&six), None);
    let mut short = whole;
    short[0] = 0x44;
    assert_eq!(Header::of(&short), None, "a header has at least 20 bytes");
    reflect(&mut [1, 2, 3]);
}

#[test]
fn every_endpoint_has_an_address_of_its_own() {
    let all: BTreeSet<Ipv4Addr> = (0..MAX_ENDS).map(address_of).collect();
    assert_eq!(all.len(), MAX_ENDS);
    assert!((0..MAX_ENDS).all(|end| end_at(address_of(end)) == Some(end)));
    assert_eq!(end_at(Ipv4Addr::new(10, 78, 0, 1)), None);
    assert_eq!(end_at(Ipv4Addr::new(10, 77, 0, 0)), None);
}
