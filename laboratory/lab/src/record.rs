//! Structs of results. Each field is declared once: type, unit, meaning and figure.

use crate::experiments::Figure;
use crate::text::{figure, fill};
use quorate_types::ReplicaId;
use quorate_types::text::count;

/// Reads a figure from a struct.
pub type Getter<T> = fn(&T) -> Option<f64>;

/// Field of a result struct: a key of its JSON and, if it is a figure, a column of rows.
pub struct Field<T> {
    pub key: &'static str,
    /// Unit; empty without one.
    pub unit: &'static str,
    /// Documentation, with the leading spaces of its comments.
    pub(crate) doc: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) of: Option<Getter<T>>,
    /// Whether the figure is a whole number.
    pub(crate) whole: bool,
    /// Formats the value for a table; `None` if it is absent, or its type has no one-line form.
    pub(crate) text: fn(&T) -> Option<String>,
    /// Note in its row of the terminal's table; empty if it has no row.
    pub note: &'static str,
}

/// A struct whose fields are declared with `record!`.
pub trait Record: Sized + 'static {
    const FIELDS: &'static [Field<Self>];
}

/// Helps type inference for the closures of `measured!`.
pub(crate) fn get<M, T>(measured: &M, of: impl FnOnce(&M) -> T) -> T {
    of(measured)
}

/// Value with a one-line form.
pub trait Value {
    /// Returns the value as a figure; `None` if it is absent or not a number.
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

/// Field of any type. `(&Own(&field)).text()` is the text of a [`Value`], and `None` for other types.
pub struct Own<'f, T>(pub &'f T);

/// Text of a [`Value`]. Method resolution prefers it to [`Absent`].
pub trait Present {
    fn text(&self) -> Option<String>;
}

impl<T: Value> Present for Own<'_, T> {
    fn text(&self) -> Option<String> {
        self.0.text()
    }
}

/// Fallback for types that are not a [`Value`].
pub trait Absent {
    fn text(&self) -> Option<String> {
        None
    }
}

impl<T> Absent for &Own<'_, T> {}

/// Fills a template with the fields of a record, as [`fill`] does.
pub(crate) fn describe<T: Record>(record: &T, template: &str) -> String {
    fill(template, &|key| {
        let field = T::FIELDS.iter().find(|field| field.key == key).expect("templates name fields");
        Some(((field.text)(record)?, field.unit))
    })
}

impl<T> Field<T> {
    /// Returns the documentation without its final period.
    pub fn about(&self) -> &'static str {
        self.doc.trim().trim_end_matches('.')
    }

    /// Returns the field's figure and its getter; `None` if the field is not a figure.
    pub fn figure(&self) -> Option<(Figure, Getter<T>)> {
        Some((Figure { whole: self.whole, ..Figure::new(self.figure, self.unit, self.about()) }, self.of?))
    }
}

/// Declares a struct of results. A field's type may be followed by its unit and the figure of rows that it provides:
/// `pub sent: u64 ["packets"]`, `pub views: u64 ["views" as views]`. With `in table` and a note, a figure also gets a
/// row in the terminal's table.
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

/// Declares a struct of results, as `record!` does, with a closure that derives each field from the measurements.
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
