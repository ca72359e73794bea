//! How much of a sweep runs: a part in `cargo test`, and all of it with `WAVETRAIN_SWEEPS=all`, as
//! tools/sweeps.sh has it.

/// Whether nothing is left out.
pub fn is_whole() -> bool {
    std::env::var("WAVETRAIN_SWEEPS").is_ok_and(|text| text == "all")
}

/// Rounds of a sweep of `all`, or the usual ones.
pub fn rounds(all: u64, usual: u64) -> u64 {
    if is_whole() { all } else { usual }
}

/// Every fourth of groups of `group` items, or all: each kind is there that recurs in a group.
pub fn part<T>(items: impl IntoIterator<Item = T>, group: usize) -> impl Iterator<Item = T> {
    let items = items.into_iter().enumerate();
    items.filter(move |(at, _)| is_whole() || (at / group).is_multiple_of(4)).map(|(_, item)| item)
}
