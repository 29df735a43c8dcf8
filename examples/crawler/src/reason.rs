//! Why an address was left out. Every address that a crawl knows and does not ask for has one.

/// The numbers are in the store and do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    /// Not within reach of a seed: `--scope`.
    OutOfScope = 1,
    /// A pattern of `--exclude` matches.
    Excluded = 2,
    /// There are patterns of `--include`, and none matches.
    NotIncluded = 3,
    /// The link says so, or its page.
    Nofollow = 4,
    /// More links from a seed than `--depth`.
    TooDeep = 5,
    /// More bytes than `--url-bytes`.
    TooLong = 6,
    /// Too many redirects in a row, or sitemaps within sitemaps.
    TooManyRedirects = 7,
    /// `--host-pages` is used up.
    HostPages = 8,
    /// `--directory-pages` is used up.
    DirectoryPages = 9,
    /// The pages of its directory no longer bring anything new.
    NothingNewInDirectory = 10,
    /// Those of its host do not.
    NothingNewInHost = 11,
    /// robots.txt forbids it.
    Robots = 12,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Reason; 12] = [
        Reason::OutOfScope,
        Reason::Excluded,
        Reason::NotIncluded,
        Reason::Nofollow,
        Reason::TooDeep,
        Reason::TooLong,
        Reason::TooManyRedirects,
        Reason::HostPages,
        Reason::DirectoryPages,
        Reason::NothingNewInDirectory,
        Reason::NothingNewInHost,
        Reason::Robots,
    ];

    /// The number for the store; never 0.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The reason with this number, if there is one.
    pub(crate) fn from_number(number: u8) -> Option<Reason> {
        Reason::ALL
            .get(usize::from(number.checked_sub(1)?))
            .copied()
    }

    /// For summaries and lists.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Reason::OutOfScope => "out of scope",
            Reason::Excluded => "excluded",
            Reason::NotIncluded => "not included",
            Reason::Nofollow => "nofollow",
            Reason::TooDeep => "too deep",
            Reason::TooLong => "too long",
            Reason::TooManyRedirects => "too many redirects",
            Reason::HostPages => "host budget",
            Reason::DirectoryPages => "directory budget",
            Reason::NothingNewInDirectory => "nothing new in its directory",
            Reason::NothingNewInHost => "nothing new in its host",
            Reason::Robots => "forbidden by robots.txt",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn numbers_and_texts_stand_for_one_reason_each() {
        for (number, reason) in (1..).zip(Reason::ALL) {
            assert_eq!(reason.number(), number);
            assert_eq!(Reason::from_number(number), Some(reason));
            let same = Reason::ALL
                .iter()
                .filter(|other| other.text() == reason.text());
            assert_eq!(same.count(), 1, "{reason:?}");
        }
        for number in [0, 13, 255] {
            assert_eq!(Reason::from_number(number), None);
        }
    }
}
