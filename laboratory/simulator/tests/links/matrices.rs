//! Measured round trips as CSV.

use proptest::prelude::*;
use quorate_simulator::NetworkSpec;
use quorate_simulator::network::Delay;

fn network(text: &str) -> NetworkSpec {
    NetworkSpec::parse_csv(text, "net.csv").unwrap_or_else(|fault| panic!("{fault}"))
}

fn matrix(network: &NetworkSpec) -> (Vec<&str>, &[Vec<f64>]) {
    let Delay::Matrix { regions, one_way_ms, .. } = &network.delay else { panic!("it has regions") };
    (regions.iter().map(String::as_str).collect(), one_way_ms)
}

#[test]
fn a_matrix_of_regions_is_halved() {
    let text = "Region (ms),us-east-1,eu-west-1,ap-south-1\n\
                us-east-1,3.1,68.5,190\n\
                eu-west-1,67.5 ms,1.5,\n\
                ap-south-1,190,\"122.25\",-\n";
    let network = network(text);
    let (regions, delays) = matrix(&network);
    assert_eq!(regions, ["us-east-1", "eu-west-1", "ap-south-1"]);
    // An empty field takes the other direction, and a region without its own value our assumption.
    assert_eq!(delays, [[1.55, 34.25, 95.0], [33.75, 0.75, 61.125], [95.0, 61.125, 0.5]]);
    assert_eq!(NetworkSpec::of_file(text, "net.csv"), Ok(network));
    let other = "\u{feff},b,a\n\na,2,4\nb,6,8\n";
    assert_eq!(matrix(&self::network(other)).1, [[3.0, 4.0], [1.0, 2.0]], "rows in another order than columns");
}

#[test]
fn pings_of_a_pair_are_averaged() {
    let text = "\"source\",\"destination\",\"timestamp\",\"min\",\"avg\",\"max\",\"mdev\"\n\
                \"1\",\"4\",\"2020-07-19 00:06:03\",\"69.9\",\"70.0\",\"71.1\",\"0.4\"\n\
                \"1\",\"4\",\"2020-07-19 01:06:03\",\"69.9\",\"74.0\",\"91.1\",\"0.4\"\n\
                \"4\",\"9\",\"2020-07-19 00:06:04\",\"10.9\",\"11.0\",\"11.1\",\"0.1\"\n\
                \"9\",\"1\",\"2020-07-19 00:06:05\",\"80.0\",\"81.0\",\"82.0\",\"0.1\"\n";
    let network = network(text);
    let (regions, delays) = matrix(&network);
    assert_eq!(regions, ["1", "4", "9"]);
    assert_eq!(delays, [[0.5, 36.0, 40.5], [36.0, 0.5, 5.5], [40.5, 5.5, 0.5]]);
}

#[test]
fn a_bad_file_is_refused_with_the_line_and_a_remedy() {
    let cases = [
        ("", "net.csv: is empty; help: write a line of region names"),
        ("\n,,\n", "net.csv: is empty"),
        ("r,a,b\na,1,x\nb,1,1\n", "net.csv, line 2, column 3: `x` is no round trip; help: write milliseconds"),
        ("r,a,b\na,1,-2\nb,1,1\n", "line 2, column 3: `-2` is no round trip"),
        ("r,a,b\na,1,NaN\n", "`NaN` is no round trip"),
        ("r,a,a\na,1,2\n", "line 1: column 3 has the name `a`; help: name each region once"),
        ("r,a,\na,1,2\n", "line 1: column 3 has the name ``"),
        ("r,a,b\na,1,2\nc,1,2\n", "line 3: the row of `c` has no column; help: name the same regions"),
        ("r,a,b\na,1,2\na,1,2\n", "line 3: `a` has a second row"),
        ("r,a\na,1,2\n", "line 2: has 3 fields for 1 regions"),
        ("r,a,b\na,1,\n", "has no round trip between `a` and `b`, in either direction; help: add it"),
        ("r\n", "has 0 regions, not 1 to 512"),
        ("source,destination,avg\n1,,3\n", "line 2: names no two regions; help: write an identifier"),
        ("source,destination,avg\n1,2,fast\n", "line 2, column `avg`: `fast` is no round trip"),
        ("source,destination,avg\n1,2,3\n4,5,6\n", "no round trip between `1` and `4`"),
    ];
    for (text, says) in cases {
        let fault = NetworkSpec::parse_csv(text, "net.csv").expect_err(text).to_string();
        assert!(fault.contains(says), "{text:?}: {fault}");
    }
    let lan = NetworkSpec::preset("lan").expect("a preset");
    let fault = lan.to_csv("lan").expect_err("it has no regions").to_string();
    assert!(fault.contains("lan: `delay.kind`: has no regions; help: name a network"), "{fault}");
}

#[test]
fn presets_with_regions_survive_the_way_to_csv_and_back() {
    for name in ["wan4", "us4", "world12"] {
        let preset = NetworkSpec::preset(name).expect("a preset");
        let back = network(&preset.to_csv(name).expect("it has regions"));
        let ((regions, delays), (other, expected)) = (matrix(&back), matrix(&preset));
        assert_eq!(regions, other, "{name}");
        for (from, to) in (0..regions.len()).flat_map(|from| (0..regions.len()).map(move |to| (from, to))) {
            // A round trip is both ways, so each direction gets half of their sum.
            let both = (expected[from][to] + expected[to][from]) / 2.0;
            assert_eq!(delays[from][to], both, "{name}: {from} to {to}");
        }
    }
}

proptest! {
    #[test]
    fn symmetric_delays_survive_the_way_to_csv_and_back(
        count in 1usize..9,
        delays in prop::collection::vec(0.0f64..1000.0, 64),
    ) {
        let regions: Vec<String> = (0..count).map(|at| format!("region \"{at}\", the {at}th")).collect();
        let delay = |from: usize, to: usize| delays[from.min(to) * 8 + from.max(to) % 8];
        let one_way_ms = (0..count).map(|from| (0..count).map(|to| delay(from, to)).collect()).collect();
        let delay = Delay::Matrix { regions, one_way_ms, placement: Vec::new(), clients: None };
        let network = NetworkSpec { delay, ..NetworkSpec::default() };
        let text = network.to_csv("net").expect("it has regions");
        let back = NetworkSpec::parse_csv(&text, "net.csv").expect("it was just written");
        prop_assert_eq!(&back, &network);
        prop_assert_eq!(NetworkSpec::parse(&back.to_toml(), "net.toml"), Ok(network));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z0-9,.\"\n\r -]{0,120}") {
        drop(NetworkSpec::parse_csv(&text, "net.csv"));
        drop(NetworkSpec::parse_csv(&format!("source,destination,avg\n{text}"), "net.csv"));
    }
}
