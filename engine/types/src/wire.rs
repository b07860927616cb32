//! The macro that declares encodings. Only types whose parts depend on each other implement [`Wire`](crate::Wire) by
//! hand, and a comment there says how.

/// Declares the encoding of a type: its fields in order; an enum's variant begins with its number.
///
/// A field without a form is encoded by its own [`Wire`](crate::Wire). Other fields state their form and their name in
/// errors:
///
/// | form | encoding |
/// |---|---|
/// | `u8["name"]`, and `u16`, `u32`, `u64`, `u128` likewise | the number |
/// | `array["name"]` | a fixed number of bytes |
/// | `flag["name"]` | 0 or 1 |
/// | `bytes["name", limit]` | the length in four bytes, and the bytes |
/// | `text["name", limit]` | the same, of UTF-8 |
/// | `list["name", limit, each]` | the count in four bytes, and the items, of at least `each` bytes |
/// | `with[encode, decode]` | the output of `encode(&field, out)`, read by `decode(input)` |
///
/// `check f` after a struct calls `f(&value, input)`, which can refuse values; `by f` constructs the value by
/// `f(field, ..)`. An enum `of ALL` without fields is encoded as the number of its variant, one of the constant `ALL`.
/// Variants that need special code follow the enum as arms of both matches, after `by hand |out, input|`: the compiler
/// still reports a missing one.
#[macro_export]
macro_rules! wire {
    (struct $name:ident { $($field:ident $(: $form:ident $of:tt)?),* $(,)? } $(check $check:path)?) => {
        impl $crate::Wire for $name {
            fn encode(&self, out: &mut $crate::Encoder) {
                $($crate::wire!(@put out, &self.$field $(, $form $of)?);)*
            }

            fn decode(input: &mut $crate::Decoder) -> Result<Self, $crate::DecodeError> {
                $(let $field = $crate::wire!(@get input $(, $form $of)?);)*
                let value = $name { $($field),* };
                $($check(&value, input)?;)?
                Ok(value)
            }
        }
    };
    (struct $name:ident { $($field:ident $(: $form:ident $of:tt)?),* $(,)? } by $make:path) => {
        impl $crate::Wire for $name {
            fn encode(&self, out: &mut $crate::Encoder) {
                $($crate::wire!(@put out, &self.$field $(, $form $of)?);)*
            }

            fn decode(input: &mut $crate::Decoder) -> Result<Self, $crate::DecodeError> {
                $(let $field = $crate::wire!(@get input $(, $form $of)?);)*
                Ok($make($($field),*))
            }
        }
    };
    (enum $name:ident as $what:literal of ALL) => {
        impl $crate::Wire for $name {
            fn encode(&self, out: &mut $crate::Encoder) {
                out.put_u8(*self as u8);
            }

            fn decode(input: &mut $crate::Decoder) -> Result<Self, $crate::DecodeError> {
                let number = input.get_u8($what)?;
                let known = $name::ALL.into_iter().find(|known| *known as u8 == number);
                known.ok_or_else(|| input.invalid($what, concat!("no such ", $what)))
            }
        }
    };
    (struct $name:ident($form:ident $of:tt)) => {
        impl $crate::Wire for $name {
            fn encode(&self, out: &mut $crate::Encoder) {
                $crate::wire!(@put out, &self.0, $form $of);
            }

            fn decode(input: &mut $crate::Decoder) -> Result<Self, $crate::DecodeError> {
                Ok($name($crate::wire!(@get input, $form $of)))
            }
        }
    };
    (enum $name:ident $(<$param:ident>)? as $what:literal { $($variants:tt)* }) => {
        $crate::wire!(@enum $name [$($param)?] $what, out, input { $($variants)* } {} {});
    };
    (
        enum $name:ident $(<$param:ident>)? as $what:literal { $($variants:tt)* }
        by hand |$out:ident, $input:ident| { $($encode:tt)* } { $($decode:tt)* }
    ) => {
        $crate::wire!(@enum $name [$($param)?] $what, $out, $input { $($variants)* } { $($encode)* } { $($decode)* });
    };
    (
        @enum $name:ident [$($param:ident)?] $what:literal, $out:ident, $input:ident {
            $(
                $tag:literal = $variant:ident
                $(( $($item:ident $(: $item_form:ident $item_of:tt)?),* ))?
                $({ $($field:ident $(: $form:ident $of:tt)?),* $(,)? })?
            ),* $(,)?
        }
        { $($encode:tt)* } { $($decode:tt)* }
    ) => {
        impl $(<$param: $crate::Wire>)? $crate::Wire for $name $(<$param>)? {
            fn encode(&self, $out: &mut $crate::Encoder) {
                match self {
                    $($name::$variant $(( $($item),* ))? $({ $($field),* })? => {
                        $out.put_u8($tag);
                        $($($crate::wire!(@put $out, $item $(, $item_form $item_of)?);)*)?
                        $($($crate::wire!(@put $out, $field $(, $form $of)?);)*)?
                    })*
                    $($encode)*
                }
            }

            fn decode($input: &mut $crate::Decoder) -> Result<Self, $crate::DecodeError> {
                match $input.get_u8($what)? {
                    $($tag => {
                        $($(let $item = $crate::wire!(@get $input $(, $item_form $item_of)?);)*)?
                        $($(let $field = $crate::wire!(@get $input $(, $form $of)?);)*)?
                        Ok($name::$variant $(( $($item),* ))? $({ $($field),* })?)
                    })*
                    $($decode)*
                    _ => Err($input.invalid($what, "no such kind")),
                }
            }
        }
    };
    (@put $out:ident, $value:expr) => { $crate::Wire::encode($value, $out) };
    (@put $out:ident, $value:expr, array $of:tt) => { $out.put_slice($value) };
    (@put $out:ident, $value:expr, u8 $of:tt) => { $out.put_u8(*$value) };
    (@put $out:ident, $value:expr, u16 $of:tt) => { $out.put_u16(*$value) };
    (@put $out:ident, $value:expr, u32 $of:tt) => { $out.put_u32(*$value) };
    (@put $out:ident, $value:expr, u64 $of:tt) => { $out.put_u64(*$value) };
    (@put $out:ident, $value:expr, u128 $of:tt) => { $out.put_slice(&$value.to_le_bytes()) };
    (@put $out:ident, $value:expr, flag $of:tt) => { $out.put_u8(u8::from(*$value)) };
    (@put $out:ident, $value:expr, bytes $of:tt) => { $out.put_bytes($value) };
    (@put $out:ident, $value:expr, text $of:tt) => { $out.put_bytes($value.as_bytes()) };
    (@put $out:ident, $value:expr, list $of:tt) => { $crate::codec::encode_list($value, $out) };
    (@put $out:ident, $value:expr, with [$encode:path, $decode:path]) => { $encode($value, $out) };
    (@get $input:ident) => { $crate::Wire::decode($input)? };
    (@get $input:ident, array [$what:expr]) => { $input.get_array($what)? };
    (@get $input:ident, u8 [$what:expr]) => { $input.get_u8($what)? };
    (@get $input:ident, u16 [$what:expr]) => { $input.get_u16($what)? };
    (@get $input:ident, u32 [$what:expr]) => { $input.get_u32($what)? };
    (@get $input:ident, u64 [$what:expr]) => { $input.get_u64($what)? };
    (@get $input:ident, u128 [$what:expr]) => { u128::from_le_bytes($input.get_array($what)?) };
    (@get $input:ident, flag [$what:expr]) => { $input.get_flag($what)? };
    (@get $input:ident, bytes [$what:expr, $limit:expr]) => { $input.get_bytes($what, $limit)? };
    (@get $input:ident, text [$what:expr, $limit:expr]) => { $input.get_text($what, $limit)? };
    (@get $input:ident, list [$what:expr, $limit:expr, $each:expr]) => {
        $crate::codec::decode_list($input, $what, $limit, $each)?
    };
    (@get $input:ident, with [$encode:path, $decode:path]) => { $decode($input)? };
}
