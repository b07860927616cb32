//! Lists of numbers on the command line.

use std::str::FromStr;

/// Maximum number of values in a list.
const MAX_VALUES: usize = 1000;

/// List of whole numbers, such as `512,4096`, `3..31` or `4..31/3`. Ranges include their end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Amounts(pub Vec<u32>);

impl FromStr for Amounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Amounts, String> {
        let form = || format!("`{text}` is no list; write numbers or ranges such as 512,4096 or 3..31 or 4..31/3");
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| form());
        let mut values = Vec::new();
        for part in text.split(',') {
            let Some((from, rest)) = part.split_once("..") else {
                values.push(number(part)?);
                continue;
            };
            let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
            let (from, to, step) = (number(from)?, number(to)?, number(step)?);
            if to < from || step == 0 {
                return Err(format!(
                    "`{part}` has no numbers; write an end not below the beginning and a step above 0"
                ));
            }
            values.extend((from..=to).step_by(step as usize).take(MAX_VALUES + 1));
        }
        match values.len() <= MAX_VALUES {
            true => Ok(Amounts(values)),
            false => Err(format!("`{text}` has more than {MAX_VALUES} numbers; use a larger step")),
        }
    }
}
