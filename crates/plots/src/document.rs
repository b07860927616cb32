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
    /// Returns the words that pages and machine-readable results use.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::Undecided => "undecided",
            Verdict::NotMeasurableHere => "not measurable here",
        }
    }
}

/// Statement that was judged.
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
    /// Numbers are aligned to the right.
    pub numeric: bool,
}

/// Table of text; every row has as many fields as there are columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
}

/// Part of a section.
#[derive(Clone, PartialEq, Debug)]
pub enum Block {
    Paragraph(String),
    /// Boxed because it is much larger than the others.
    Figure(Box<Figure>),
    Claims(Vec<Claim>),
    Table(Table),
    /// Shown in a fixed-width font, with a button that copies it.
    Command(String),
}

/// Part of a page under a heading.
#[derive(Clone, PartialEq, Debug)]
pub struct Section {
    /// As `Figure::id`; unique among the sections and figures of a page.
    pub id: String,
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
