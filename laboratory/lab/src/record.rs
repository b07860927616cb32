//! Structs of results whose fields are declared once: type, unit, meaning and figure.

use crate::experiments::Figure;

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

/// A value that can be a figure.
pub trait Number {
    fn number(&self) -> Option<f64>;
}

impl Number for f64 {
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

impl Number for u64 {
    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

impl<T: Number> Number for Option<T> {
    fn number(&self) -> Option<f64> {
        self.as_ref()?.number()
    }
}

impl<T> Field<T> {
    /// Returns the documentation without the point at its end.
    pub fn about(&self) -> &'static str {
        self.doc.trim().trim_end_matches('.')
    }

    /// Returns the figure that the field is, and how to get it; `None` if it is none.
    pub fn figure(&self) -> Option<(Figure, Getter<T>)> {
        Some((Figure::new(self.figure, self.unit, self.about()), self.of?))
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
                let mut of: Option<fn(&$name) -> Option<f64>> = None;
                $($(
                    let _ = stringify!($figure);
                    of = Some(|own: &$name| $crate::record::Number::number(&own.$field));
                )?)?
                $crate::record::Field {
                    key: stringify!($field),
                    unit: concat!($($unit)?),
                    doc: concat!($($about),*),
                    figure: concat!($($(stringify!($figure))?)?),
                    of,
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
