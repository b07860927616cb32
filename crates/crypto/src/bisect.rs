//! Finding the wrong ones among claims that are checked many at once.

/// The claims that do not hold, in order. All are checked at once; if that fails, halves are, until every bad one is found.
pub fn find_bad<T>(claims: &[T], mut check: impl FnMut(&[T]) -> bool) -> Vec<&T> {
    let mut bad = Vec::new();
    search(claims, false, &mut check, &mut bad);
    bad
}

/// `known_bad` if it is known already that at least one is.
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
