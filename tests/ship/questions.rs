//! Programs that answer questions, a line each: what is asked in C, in C++ and in Python.

use crate::common::{cc, header};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How a source of tests/c is compiled.
pub struct Make {
    pub compiler: &'static str,
    pub language: &'static str,
    pub standard: &'static str,
    pub flags: &'static [&'static str],
}

/// Without optimisation to speak of, every undefined step an error.
pub const CHECKED: [Make; 2] = {
    const FLAGS: &[&str] = &["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"];
    [
        Make { compiler: "gcc", language: "c", standard: "c99", flags: FLAGS },
        Make { compiler: "g++", language: "c++", standard: "c++11", flags: FLAGS },
    ]
};

/// What a compiler may do at most: no number of ours may depend on it.
pub const FAST: [Make; 3] = {
    const FLAGS: &[&str] = &["-O3", "-ffast-math", "-march=native"];
    const NARROW: &str = "-U__SIZEOF_INT128__";
    [
        Make { compiler: "g++", language: "c++", standard: "c++17", flags: FLAGS },
        // As where there are no numbers of 128 bits.
        Make { compiler: "clang", language: "c", standard: "c99", flags: &["-O2", NARROW] },
        Make { compiler: "clang++", language: "c++", standard: "c++11", flags: FLAGS },
    ]
};

/// The programs of a source of tests/c, where there are compilers.
pub fn programs<'a>(stem: &str, ways: impl IntoIterator<Item = &'a Make>) -> Vec<PathBuf> {
    let folder = cc::folder(&format!("program-{stem}"));
    let mut made = Vec::new();
    for Make { compiler, language, standard, flags } in ways {
        let Some(compiler) = cc::find(compiler, &[compiler]) else { continue };
        let program = folder.join(format!("{stem}-{compiler}-{language}-{}", made.len()));
        let mut command = Command::new(&compiler);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef"]);
        command.args(["-Wsign-conversion", "-Werror"]).args(*flags);
        command.args([&format!("-std={standard}"), "-x", language]);
        command.arg("-I").arg(header::root().join("include"));
        let source = header::root().join(format!("tests/c/{stem}.c"));
        cc::run(command.arg(source).arg("-o").arg(&program));
        made.push(program);
    }
    made
}

/// Asks a program all questions, of which each comes with its answer.
pub fn ask(command: &mut Command, questions: &[(String, String)]) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    questions.iter().for_each(|(question, _)| text += &format!("{question}\n"));
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let written = writer.join().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    for ((question, expected), answer) in questions.iter().zip(answers.lines()) {
        assert_eq!(answer, expected, "{question} of {command:?}");
    }
    assert!(output.status.success(), "{command:?}: {}", output.status);
    written.unwrap();
    assert_eq!(answers.lines().count(), questions.len(), "{command:?}");
}

/// Numbers as an answer has them.
pub fn words(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().fold(String::new(), |mut text, number| {
        write!(text, " {number}").unwrap();
        text
    })
}

/// Numbers of all sizes, the ends of their ranges among them.
pub struct Numbers(pub u64);

impl Numbers {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 ^ (self.0 >> 29)
    }

    /// 0 to `max`.
    pub fn upto(&mut self, max: u64) -> u64 {
        let (choice, number) = (self.bits() >> 60, self.bits());
        match choice {
            0 => max,
            1 => max - max.min(number % 3),
            2 => max.min(number % 3),
            // Of each size as often as of another.
            _ => (number >> ((choice * 61 + (number >> 58)) % 64)) % max.saturating_add(1),
        }
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[(self.bits() >> 33) as usize % list.len()]
    }
}
