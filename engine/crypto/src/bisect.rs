//! Bisection of a failed batch of claims.

/// Returns the false claims, in order. Checks all claims at once and, if that fails, bisects until every false one is
/// identified.
pub fn find_bad<T>(claims: &[T], mut check: impl FnMut(&[T]) -> bool) -> Vec<&T> {
    let mut bad = Vec::new();
    search(claims, false, &mut check, &mut bad);
    bad
}

/// `known_bad`: at least one of the claims is known to be false, so checking all of them would be redundant.
fn search<'a, T>(claims: &'a [T], known_bad: bool, check: &mut impl FnMut(&[T]) -> bool, bad: &mut Vec<&'a T>) {
    if !known_bad && check(claims) {
        return;
    }
    if let [claim] = claims {
        return bad.push(claim);
    }
    let (left, right) = claims.split_at(claims.len() / 2);
    let before = bad.len();
    search(left, false, check, bad);
    search(right, bad.len() == before, check, bad);
}
