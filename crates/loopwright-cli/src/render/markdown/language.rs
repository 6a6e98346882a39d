//! What has to be known of a language to colour its code: no grammar, only words, comments and quotes.

/// A language, or a family of them that look alike.
#[derive(Debug)]
pub(super) struct Language {
    /// What code blocks call it.
    names: &'static str,
    keywords: &'static str,
    /// What begins a comment that ends with its line.
    pub(super) line_comments: &'static [&'static str],
    /// What encloses a comment of several lines.
    pub(super) block_comment: Option<(&'static str, &'static str)>,
    /// What encloses texts, the longest first, and whether they may have several lines.
    pub(super) quotes: &'static [(&'static str, Extent)],
    case: Case,
}

/// How far a text may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Line,
    Lines,
    /// One character, as in Rust, where the mark alone means something else.
    Character,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Counts,
    Ignored,
}

const C_COMMENT: Option<(&str, &str)> = Some(("/*", "*/"));
const C_QUOTES: &[(&str, Extent)] = &[("\"", Extent::Line), ("'", Extent::Line)];

const PLAIN: Language = Language {
    names: "",
    keywords: "",
    line_comments: &[],
    block_comment: None,
    quotes: C_QUOTES,
    case: Case::Counts,
};

const LANGUAGES: &[Language] = &[
    Language {
        names: "rust rs",
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop \
            match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        quotes: &[("\"", Extent::Lines), ("'", Extent::Character)],
        ..PLAIN
    },
    Language {
        names: "python py",
        keywords: "and as assert async await break class continue def del elif else except False finally for from \
            global if import in is lambda None nonlocal not or pass raise return True try while with yield",
        line_comments: &["#"],
        quotes: &[
            ("\"\"\"", Extent::Lines),
            ("'''", Extent::Lines),
            ("\"", Extent::Line),
            ("'", Extent::Line),
        ],
        ..PLAIN
    },
    Language {
        names: "javascript js jsx typescript ts tsx mjs",
        keywords: "abstract any as async await boolean break case catch class const continue default delete do else \
            enum export extends false finally for from function if implements import in instanceof interface let \
            new null number of private protected public readonly return static string super switch this throw true \
            try type typeof undefined var void while yield",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        quotes: &[("`", Extent::Lines), ("\"", Extent::Line), ("'", Extent::Line)],
        ..PLAIN
    },
    Language {
        names: "go golang",
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import \
            interface map nil package range return select struct switch true type var",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        quotes: &[("`", Extent::Lines), ("\"", Extent::Line), ("'", Extent::Line)],
        ..PLAIN
    },
    Language {
        names: "c h cpp c++ cc hpp java kotlin kt csharp cs c# swift php",
        keywords: "abstract auto bool boolean break case catch char class const continue default delete do double \
            else enum extends extern false final finally float for foreach fun func if implements import in include \
            int interface internal let long namespace new null nullptr override package private protected public \
            return short signed sizeof static string struct super switch template this throw true try typedef \
            typename union unsigned using val var virtual void volatile while",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        ..PLAIN
    },
    Language {
        names: "bash sh shell zsh console",
        keywords: "case do done elif else esac export fi for function if in local return set then until while",
        line_comments: &["#"],
        quotes: &[("\"", Extent::Lines), ("'", Extent::Lines)],
        ..PLAIN
    },
    Language {
        names: "ruby rb",
        keywords: "and begin break case class def do else elsif end ensure false for if in module next nil not or \
            redo require rescue retry return self super then true undef unless until when while yield",
        line_comments: &["#"],
        ..PLAIN
    },
    Language {
        names: "toml yaml yml ini dockerfile make makefile",
        keywords: "true false null yes no",
        line_comments: &["#"],
        ..PLAIN
    },
    Language {
        names: "json jsonc json5 jsonl",
        keywords: "true false null",
        line_comments: &["//"],
        ..PLAIN
    },
    Language {
        names: "sql",
        keywords: "add all alter and as asc begin between by case check column commit constraint create cross default \
            delete desc distinct drop else end exists foreign from full group having in index inner insert into is \
            join key left like limit not null offset on or order outer primary references returning right rollback \
            select set table then union unique update using values view when where with",
        line_comments: &["--"],
        block_comment: C_COMMENT,
        case: Case::Ignored,
        ..PLAIN
    },
    Language { names: "html xml svg css", block_comment: Some(("<!--", "-->")), ..PLAIN },
];

impl Language {
    /// Finds the language that a code block names.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        let name = name.to_ascii_lowercase();
        LANGUAGES.iter().find(|it| it.names.split(' ').any(|it| it == name))
    }

    pub(super) fn is_keyword(&self, word: &str) -> bool {
        let is_same = |known: &str| match self.case {
            Case::Counts => known == word,
            Case::Ignored => known.eq_ignore_ascii_case(word),
        };
        self.keywords.split_ascii_whitespace().any(is_same)
    }
}
