//! Plain data of a page: sections of paragraphs, figures, claims and tables.

use crate::model::Figure;

/// Verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Holds,
    DoesNotHold,
    /// The interval of the measurement straddles the bound.
    Undecided,
    NotMeasurableHere,
}

impl Verdict {
    /// Returns the words used in pages and in machine-readable results.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::Undecided => "undecided",
            Verdict::NotMeasurableHere => "not measurable here",
        }
    }
}

/// Judged statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub id: String,
    pub text: String,
    pub verdict: Verdict,
    /// The numbers behind the verdict.
    pub measured: String,
    /// The paper's figure, if its text gives one.
    pub paper: Option<String>,
    /// Why the result differs from the paper's, or what is missing.
    pub note: Option<String>,
}

/// Column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    pub title: String,
    /// Whether fields are numbers, which are right-aligned.
    pub numeric: bool,
}

/// Table of text; every row has as many fields as there are columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
}

/// Tone of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    Good,
    Neutral,
    Warning,
    Bad,
}

/// Short statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chip {
    pub tone: Tone,
    pub text: String,
}

/// Main figure of a page, with its label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    pub name: String,
    pub value: String,
    pub unit: String,
}

/// Statement that a reader must see before the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub tone: Tone,
    pub title: String,
    pub text: String,
    /// Items listed below the text.
    pub items: Vec<String>,
    /// Whether the items are initially collapsed.
    pub folded: bool,
}

/// Value with its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    pub name: String,
    pub value: String,
    /// Whether it is highlighted.
    pub marked: bool,
    /// Tooltip; may be empty.
    pub help: String,
}

/// Part of a section.
#[derive(Clone, PartialEq, Debug)]
pub enum Block {
    /// Text. Backticks mark code, as in captions and notes.
    Paragraph(String),
    /// Boxed because it is much larger than the other variants.
    Figure(Box<Figure>),
    Claims(Vec<Claim>),
    Chips(Vec<Chip>),
    /// Main figures, the first of which is the largest.
    Tiles(Vec<Tile>),
    Note(Note),
    /// Names with short values, in columns.
    Facts(Vec<Fact>),
    /// Names with explanations.
    Terms(Vec<(String, String)>),
    Table(Table),
    /// Shown in a fixed-width font, with a button that copies it.
    Command(String),
}

/// Part of a page under a heading.
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    /// Identifier, as in `Figure::id`; unique among the sections and figures of a page.
    pub id: String,
    /// Empty for a section without a heading, which the table of contents omits.
    pub title: String,
    pub blocks: Vec<Block>,
}

/// One offline page.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    pub title: String,
    /// Paragraphs below the title.
    pub lead: Vec<String>,
    pub sections: Vec<Section>,
    /// Provenance: version, machine, date.
    pub footer: String,
}
