//! Parsing of IP addresses, host names and invalid addresses.

use quorate_types::Address;

fn parse(text: &str) -> Result<Address, String> {
    text.parse().map_err(|error: quorate_types::AddressError| error.to_string())
}

#[test]
fn ip_addresses_and_names_are_written_as_they_are_read() {
    for text in ["10.0.0.1:7000", "[::1]:7000", "replica-0.example.com:7000", "localhost:0", "a_b:65535", "4.example:1"]
    {
        let address = parse(text).expect(text);
        assert_eq!(address.to_string(), text);
        assert_eq!(address.with_port(9).port(), 9);
        assert_eq!(address.socket().is_some(), text.parse::<std::net::SocketAddr>().is_ok(), "{text}");
    }
    assert_eq!(Address::on("::1", 7).unwrap(), parse("[::1]:7").unwrap());
    assert_eq!(Address::on("host", 7).unwrap(), parse("host:7").unwrap());
}

#[test]
fn invalid_addresses_are_refused_with_help() {
    let long = format!("{}:7000", "a.".repeat(127) + "a");
    for text in [
        "",
        "localhost",
        ":7000",
        "host:",
        "host:65536",
        "host:-1",
        "300.1.1.1:7000",
        "10.0.0:7000",
        "::1:7000",
        "::1",
        "-host:1",
        "host-:1",
        "a..b:1",
        "a b:1",
        "http://host:80",
        "host:80/path",
        "hôte:1",
        &long[..],
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains("write HOST:PORT, such as 10.0.0.1:7000"), "{text}: {error}");
    }
    let label = format!("{}:1", "a".repeat(64));
    assert!(parse(&label).is_err() && parse(&label[1..]).is_ok(), "a label has 63 characters at most");
}

#[test]
fn loopback_addresses_are_recognised() {
    for (text, is_loopback) in [
        ("127.0.0.1:1", true),
        ("127.9.9.9:1", true),
        ("[::1]:1", true),
        ("localhost:1", true),
        ("LocalHost:1", true),
        ("0.0.0.0:1", false),
        ("[::]:1", false),
        ("10.0.0.1:1", false),
        ("localhost.example.com:1", false),
    ] {
        assert_eq!(parse(text).unwrap().is_loopback(), is_loopback, "{text}");
    }
}
