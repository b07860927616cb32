//! Keys of configurations: a field is the only declaration, from which texts, checks and flags are derived.

use quorate_types::settings::{
    CLUSTER, Flag, Key, REPRODUCTION, With, at, check_effects, check_ranges, compared, explain, json_schema, keys,
    select, set, to_markdown, tree,
};
use quorate_types::{BatchSize, Dissemination};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const MAX_SLOTS: u64 = 16;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Table {
    /// Number of slots, as [`Root::name`] and
    /// [others](Root) say.
    #[schemars(range(min = 2, max = MAX_SLOTS))]
    #[schemars(extend("x-cluster" = true, "x-flag" = Flag::under(CLUSTER).value("SLOTS").rare()))]
    slots: u64,
    /// Maximum wait. No limit if absent.
    #[schemars(range(max = 9), extend("x-reported" = true), example = 7)]
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    /// How commands travel.
    #[schemars(extend("x-with" = With::one("batch", &["auto", "3"])))]
    way: Option<Dissemination>,
    /// Reproduces a paper.
    #[schemars(extend("x-flag" = Flag::under(REPRODUCTION)))]
    paper: bool,
}

/// Keys that must be equal: two of the first release, and two of a later one.
#[derive(Serialize, JsonSchema)]
struct Compared {
    /// Compared.
    #[schemars(extend("x-cluster" = true))]
    #[serde(default)]
    first: u64,
    /// Compared in another way.
    #[schemars(extend("x-cluster" = "shown"))]
    shown: u64,
    /// Not compared.
    own: u64,
    /// Has a default.
    #[schemars(extend("x-cluster" = true, "x-added" = "0.2.0"))]
    #[serde(default)]
    later: u64,
    /// Is absent by default.
    #[schemars(extend("x-cluster" = true, "x-added" = "0.2.0"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    optional: Option<u64>,
}

#[test]
fn a_key_of_a_later_release_is_compared_unless_it_has_its_default() {
    let names = |later, optional| -> Vec<&str> {
        let tree = tree(&Compared { first: 0, shown: 1, own: 2, later, optional });
        compared::<Compared>(&tree).map(|(key, _)| key.path.as_str()).collect()
    };
    assert_eq!(names(0, None), ["first"], "releases without the others behave so");
    assert_eq!(names(7, None), ["first", "later"]);
    assert_eq!(names(7, Some(0)), ["first", "later", "optional"]);
}

impl Default for Table {
    fn default() -> Table {
        Table { slots: 4, wait_ms: None, way: None, paper: false }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Where it is.
    address: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Root {
    /// Name, without default.
    name: String,
    /// Size of blocks.
    #[serde(default)]
    batch: BatchSize,
    /// A table.
    #[serde(default)]
    table: Table,
    /// A table that may be absent.
    #[schemars(extend("x-with" = With::other("batch", &["auto"]).or(With::one("name", &["m"]))))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    more: Option<Table>,
    members: Vec<Entry>,
}

fn key(path: &str) -> &'static Key {
    keys::<Root>().iter().find(|key| key.path == path).unwrap_or_else(|| panic!("{path} is no key"))
}

fn root() -> Root {
    let members = ["a", "b"].map(|address| Entry { address: address.into() }).to_vec();
    Root { name: "n".into(), batch: BatchSize::Auto, table: Table::default(), more: None, members }
}

#[test]
fn keys_are_those_of_all_tables_by_table_and_name() {
    let paths: Vec<&str> = keys::<Root>().iter().map(|key| key.path.as_str()).collect();
    let of_table = ["table.paper", "table.slots", "table.wait_ms", "table.way"];
    let of_more = ["more.paper", "more.slots", "more.wait_ms", "more.way"];
    assert_eq!(paths, [&["batch", "name", "members.address"][..], &of_more, &of_table].concat());
}

#[test]
fn a_key_is_as_its_field_declares_it() {
    let slots = key("table.slots");
    assert_eq!((slots.table(), slots.name(), slots.range()), ("table", "slots", (Some(2), Some(16))));
    assert_eq!(slots.doc, "Number of slots, as `Root::name` and others say. The same on every replica.");
    assert_eq!(slots.default, Some(json!(4)));
    assert!(slots.is_of_the_cluster() && slots.is_reported() && !key("table.way").is_reported());
    let flag = slots.flag().expect("it is declared");
    assert_eq!((flag.heading, flag.value, flag.is_rare, flag.is_common), (CLUSTER, Some("SLOTS"), true, false));
    assert_eq!(key("table.way").names(), Dissemination::ALL.iter().map(|way| way.name()).collect::<Vec<_>>());
    assert_eq!(key("table.wait_ms").default, None);
    assert!(key("batch").takes("integer") && key("batch").takes("string") && key("table.paper").takes("boolean"));
    assert_eq!(key("name").default, None);
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    let with = |edit: fn(&mut Root)| {
        let mut root = root();
        edit(&mut root);
        check_ranges(&root).map_err(|fault| fault.to_string())
    };
    assert_eq!(with(|_| {}), Ok(()));
    assert_eq!(with(|root| root.table.slots = 1), Err("table.slots: is 1; help: set 2 to 16".into()));
    assert_eq!(
        with(|root| root.table.slots = u64::MAX),
        Err(format!("table.slots: is {}; help: set 2 to 16", u64::MAX))
    );
    assert_eq!(with(|root| root.table.wait_ms = Some(10)), Err("table.wait_ms: is 10; help: set 0 to 9".into()));
    assert_eq!(with(|root| root.table.wait_ms = Some(9)), Ok(()));
    assert_eq!(with(|root| root.batch = BatchSize::Commands(0)), Err("batch: is 0; help: set 1 to 65536".into()));
    assert!(key("table.slots").check(&json!(-1)).is_err() && key("table.slots").check(&json!("x")).is_ok());
}

#[test]
fn a_key_without_effect_names_the_key_that_decides() {
    let because = |batch: BatchSize| {
        let tree = tree(&Root { batch, ..root() });
        key("table.way").idle_because(|path| at(&tree, path).cloned())
    };
    assert_eq!(because(BatchSize::Auto), None);
    assert_eq!(because(BatchSize::Commands(3)), None);
    let idle = because(BatchSize::Commands(4)).expect("another value decides");
    assert_eq!(idle.deciders().collect::<Vec<_>>(), ["batch"]);
    assert_eq!(idle.reason(str::to_uppercase), "BATCH is 4");
    assert_eq!(idle.remedy(str::to_owned), "leave it out, or set batch to auto or 3");
    assert_eq!(key("name").idle_because(|_| None), None);
}

#[test]
fn a_set_key_without_effect_is_refused_with_the_value_that_it_needs() {
    let with = |edit: fn(&mut Root)| {
        let mut root = root();
        edit(&mut root);
        check_effects(&root).map_err(|fault| fault.to_string())
    };
    assert_eq!(with(|root| root.batch = BatchSize::Commands(4)), Ok(()), "nothing else is set");
    let idle = with(|root| {
        root.batch = BatchSize::Commands(4);
        root.table.way = Some(Dissemination::Leader);
    });
    let expected = "table.way: has no effect, because `batch` is 4; help: leave it out, or set `batch` to auto or 3";
    assert_eq!(idle, Err(expected.into()));
    let set: fn(&mut Root) = |root| root.more = Some(Table { slots: 5, ..Table::default() });
    assert_eq!(
        with(set).expect_err("its table has no effect"),
        "more.slots: has no effect, because `batch` is auto and `name` is n; help: leave it out, or set `batch` to \
         another value than auto, or set `name` to m"
    );
    let unset: fn(&mut Root) = |root| root.more = Some(Table::default());
    assert_eq!(with(unset), Ok(()), "a default is not set");
    let either: fn(&mut Root) = |root| {
        root.more = Some(Table { slots: 5, ..Table::default() });
        root.name = "m".into();
    };
    assert_eq!(with(either), Ok(()), "one condition is enough");
}

#[test]
fn parts_of_a_configuration_are_selected_and_set_by_their_paths() {
    let reported = select(&tree(&root()), keys::<Root>().iter().filter(|key| key.is_reported()));
    assert_eq!(reported, json!({ "table": { "slots": 4 } }), "an absent value is not selected");
    let mut tree = tree(&root());
    set(&mut tree, "more.slots", json!(5));
    let read: Root = serde_json::from_value(tree).expect("it is of its type");
    assert_eq!(read.more, Some(Table { slots: 5, ..Table::default() }));
}

/// As `toml` writes it.
const FILE: &str = "name = \"n\"\nbatch = \"auto\"\n\n[table]\nslots = 4\npaper = PAPER\n\n[[members]]\n\
                    address = \"a\"\n\n[[members]]\naddress = \"b\"\n";

#[test]
fn a_file_is_explained_key_by_key() {
    let explain = |text: &str, root: &Root| explain(text, &tree(root), keys::<Root>(), "Head.", "All members.");
    let text = explain(&FILE.replace("PAPER", "true"), &root());
    let expected = "\
# Head.

# Name, without default.
name = \"n\"

# Size of blocks. As a number: from 1 to 65,536. Default: \"auto\".
batch = \"auto\"

[table]

# Number of slots, as `Root::name` and others say. The same on every replica. From 2 to 16. Default: 4.
slots = 4

# Reproduces a paper. Default: false.
paper = true

# Maximum wait. No limit if absent. From 0 to 9.
# wait_ms = 7

# How commands travel. One of `client`, `leader`, `replicas`, `replicas-certified`. Only with `batch` `auto`
# or `3`.
# way =

# All members.
[[members]]
# Where it is.
address = \"a\"

[[members]]
address = \"b\"
";
    assert_eq!(text, expected);
    let usual = explain(&FILE.replace("PAPER", "false"), &root());
    assert!(!usual.contains("paper"), "the operators' program does not know it: {usual}");
    let idle = explain(&FILE.replace("PAPER", "false"), &Root { batch: BatchSize::Commands(4), ..root() });
    assert!(!idle.contains("way") && idle.contains("slots = 4"), "a key without effect is left out: {idle}");
}

#[test]
fn a_page_has_a_table_for_each_table() {
    let page = to_markdown(keys::<Root>());
    assert!(page.starts_with("\n### Keys outside the tables\n\n| key | default |"), "{page}");
    assert!(page.contains("\n### `[table]`\n") && page.contains("### `[[members]]`, once for each replica"), "{page}");
    assert!(page.contains("Only with another `batch` than `auto`, or `name` `m`."), "{page}");
    assert!(page.contains("| `slots` | `4` | Number of slots") && page.contains("| `name` | – | "), "{page}");
}

#[test]
fn the_schema_refuses_unknown_keys() {
    let schema = json_schema::<Root>();
    assert_eq!(schema["properties"]["table"]["additionalProperties"], json!(false));
    assert_eq!(schema["required"], json!(["name", "members"]));
}
