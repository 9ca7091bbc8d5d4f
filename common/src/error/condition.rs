//! Conditions that SQL has a code of its own for, finer than the kinds.

macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident = $state:literal,)*) => {
        /// What is wrong, where SQL tells it apart from other errors of the kind. What the caller should do depends on the
        /// kind alone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Condition {
            $($(#[$doc])* $name,)*
        }

        impl Condition {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its SQLSTATE, five characters.
            #[must_use]
            pub fn sqlstate(self) -> &'static str {
                match self {
                    $(Self::$name => $state,)*
                }
            }
        }
    };
}

conditions! {
    /// A subquery with more rows than one, or a row that a statement would change twice.
    TooManyRows = "21000",
    /// A text that is no date or time.
    BadDateTime = "22007",
    /// A division by zero, or a remainder.
    DivisionByZero = "22012",
    /// A text that the type it is cast to cannot be read from.
    BadCast = "22018",
    /// An argument that the function does not take, of the right type.
    BadArgument = "22023",
    /// A LIMIT or OFFSET that is no number of rows.
    BadLimit = "2201W",
    /// A pattern that is no regular expression.
    BadPattern = "2201B",
    /// NULL in a column that takes none.
    NotNull = "23502",
    /// A key that another row has.
    DuplicateKey = "23505",
    /// A text that is no SQL.
    Syntax = "42601",
    /// A column that is named or declared twice.
    DuplicateColumn = "42701",
    /// A name that more than one column has.
    AmbiguousColumn = "42702",
    /// A column that is not there.
    UnknownColumn = "42703",
    /// A type that is not there.
    UnknownType = "42704",
    /// Two tables of a query that go by one name.
    DuplicateAlias = "42712",
    /// A column beside aggregates that is not grouped by, or an aggregate where none may be.
    Grouping = "42803",
    /// Types that do not go together.
    TypeMismatch = "42804",
    /// Types that cannot be cast to one another.
    NoCast = "42846",
    /// A function that is not there, or not for these arguments.
    UnknownFunction = "42883",
    /// A position that is none of the result's columns.
    BadPosition = "42P10",
    /// A parameter without a value.
    UnboundParameter = "42P02",
    /// Expressions nested too deep.
    TooComplex = "54001",
}

impl Condition {
    pub(super) fn from_sqlstate(state: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|condition| condition.sqlstate() == state)
    }
}
