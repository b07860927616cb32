//! Structs of results whose fields are declared once: type, unit, meaning and figure.

use crate::experiments::Figure;
use crate::text::{figure, fill};
use quorate_types::ReplicaId;
use quorate_types::text::count;

/// Gets a figure from a struct.
pub type Getter<T> = fn(&T) -> Option<f64>;

/// Field of a struct of results: a key of its JSON and, if it has a figure, a column of rows.
pub struct Field<T> {
    pub key: &'static str,
    /// Empty if the value has none.
    pub unit: &'static str,
    /// The documentation, with the spaces of its comments.
    pub(crate) doc: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) of: Option<Getter<T>>,
    /// Whether the figure is a whole number.
    pub(crate) whole: bool,
    /// Gets the value for a table; `None` if it is absent, or of a type that lines do not show.
    pub(crate) text: fn(&T) -> Option<String>,
    /// Note beside its row in the terminal's table; empty if it has no row.
    pub note: &'static str,
}

/// A struct whose fields are declared with `record!`.
pub trait Record: Sized + 'static {
    const FIELDS: &'static [Field<Self>];
}

/// Calls a closure of `measured!`.
pub(crate) fn get<M, T>(measured: &M, of: impl FnOnce(&M) -> T) -> T {
    of(measured)
}

/// A value that a line of a table can show.
pub trait Value {
    /// Returns the value as a figure; `None` if it is absent, or no number.
    fn number(&self) -> Option<f64> {
        None
    }

    /// Whether all values of the type are whole numbers.
    const WHOLE: bool = false;

    /// Returns the text; `None` if the value is absent.
    fn text(&self) -> Option<String>;
}

impl Value for f64 {
    fn number(&self) -> Option<f64> {
        Some(*self)
    }

    fn text(&self) -> Option<String> {
        Some(figure(*self))
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            const WHOLE: bool = true;

            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }

            fn text(&self) -> Option<String> {
                Some(count(*self as u64))
            }
        }
    )*};
}

whole_numbers!(u16, u32, u64, usize);

macro_rules! words {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}

words!(String, ReplicaId);

impl<T: Value> Value for Option<T> {
    const WHOLE: bool = T::WHOLE;

    fn number(&self) -> Option<f64> {
        self.as_ref()?.number()
    }

    fn text(&self) -> Option<String> {
        self.as_ref()?.text()
    }
}

/// A field of any type: `(&Own(&field)).text()` is the text of a [`Value`], and `None` for another type.
pub struct Own<'f, T>(pub &'f T);

/// The text of a value; a method call prefers it to [`Absent`].
pub trait Present {
    fn text(&self) -> Option<String>;
}

impl<T: Value> Present for Own<'_, T> {
    fn text(&self) -> Option<String> {
        self.0.text()
    }
}

/// The text of what is no value.
pub trait Absent {
    fn text(&self) -> Option<String> {
        None
    }
}

impl<T> Absent for &Own<'_, T> {}

/// Fills a template, as [`fill`] does, with the fields of a record.
pub(crate) fn describe<T: Record>(record: &T, template: &str) -> String {
    fill(template, &|key| {
        let field = T::FIELDS.iter().find(|field| field.key == key).expect("templates name fields");
        Some(((field.text)(record)?, field.unit))
    })
}

impl<T> Field<T> {
    /// Returns the documentation without the point at its end.
    pub fn about(&self) -> &'static str {
        self.doc.trim().trim_end_matches('.')
    }

    /// Returns the figure that the field is, and how to get it; `None` if it is none.
    pub fn figure(&self) -> Option<(Figure, Getter<T>)> {
        Some((Figure { whole: self.whole, ..Figure::new(self.figure, self.unit, self.about()) }, self.of?))
    }
}

/// Declares a struct of results. After the type of a field may stand its unit, and the figure of rows that it is:
/// `pub sent: u64 ["packets"]`, `pub views: u64 ["views" as views]`. With `in table` and a note after it, a figure also
/// gets a row of the terminal's table.
macro_rules! record {
    (
        $(#[$outer:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $about:literal])*
                $(#[serde($($serde:tt)*)])*
                pub $field:ident: $type:ty $([$unit:literal $(as $figure:ident $(in table $note:literal)?)?])?
            ),* $(,)?
        }
    ) => {
        $(#[$outer])*
        pub struct $name {
            $(
                $(#[doc = $about])*
                $(#[serde($($serde)*)])*
                pub $field: $type,
            )*
        }

        impl $crate::record::Record for $name {
            #[allow(unused_mut, unused_assignments, reason = "most fields are no figures")]
            const FIELDS: &'static [$crate::record::Field<$name>] = &[$({
                let (mut of, mut whole): (Option<fn(&$name) -> Option<f64>>, bool) = (None, false);
                $($(
                    let _ = stringify!($figure);
                    of = Some(|own: &$name| $crate::record::Value::number(&own.$field));
                    whole = <$type as $crate::record::Value>::WHOLE;
                )?)?
                $crate::record::Field {
                    key: stringify!($field),
                    unit: concat!($($unit)?),
                    doc: concat!($($about),*),
                    figure: concat!($($(stringify!($figure))?)?),
                    of,
                    whole,
                    text: |own: &$name| {
                        #[allow(unused_imports, reason = "each field uses one of the two")]
                        use $crate::record::{Absent, Present};
                        (&$crate::record::Own(&own.$field)).text()
                    },
                    note: concat!($($($($note)?)?)?),
                }
            }),*];
        }
    };
}

/// Declares a struct of results, as `record!` does, with the way to get each field from the measurements.
macro_rules! measured {
    (
        $(#[$outer:meta])*
        pub struct $name:ident of $of:ty {
            $(
                $(#[doc = $about:literal])*
                $(#[serde($($serde:tt)*)])*
                pub $field:ident: $type:ty $([$unit:literal $(as $figure:ident $(in table $note:literal)?)?])? =
                    |$run:pat_param| $measure:expr
            ),* $(,)?
        }
    ) => {
        $crate::record::record! {
            $(#[$outer])*
            pub struct $name {
                $(
                    $(#[doc = $about])*
                    $(#[serde($($serde)*)])*
                    pub $field: $type $([$unit $(as $figure $(in table $note)?)?])?
                ),*
            }
        }

        impl $name {
            pub(crate) fn of(measured: &$of) -> $name {
                $name { $($field: $crate::record::get(measured, |$run| -> $type { $measure }),)* }
            }
        }
    };
}

pub(crate) use {measured, record};
