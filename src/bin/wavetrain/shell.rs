//! The manual page of the tool, and completions for bash, zsh and fish.
//!
//! In: the help texts of the commands. Out: roff, or a script for the shell, on standard output.
//! Nothing is listed a second time: a flag that a help text has is completed and documented.

use crate::fault::{Outcome, usage};
use crate::fields::{fields_help, takes_value};
use crate::{augments, bench, budget, check, crop, demo, epoch, inspect, report, stats};
use std::fmt::Write as _;

/// A command: its name, and the text of its --help.
type Command = (&'static str, fn() -> String);

const COMMANDS: [Command; 8] = [
    ("demo", demo::help),
    ("inspect", inspect::help),
    ("crop", crop::help),
    ("stats", stats::help),
    ("check", check::help),
    ("bench", bench::help),
    ("epoch", epoch::help),
    ("budget", budget::help),
];
const SHELLS: &str = "bash zsh fish";
/// Lines of a help text that are indented further continue the flag above.
const CONTINUED: usize = 20;
/// The line of a help text after which flags of the config follow.
const CONFIG: &str = "\nConfig (sizes take suffixes";

/// A flag of a help text.
#[derive(Debug, PartialEq)]
struct Flag {
    /// "o" of "-o, --out FILE".
    short: Option<char>,
    /// Without dashes.
    name: String,
    /// "FILE"; "value" of a config flag; empty if the flag takes none.
    value: String,
    /// Words that the value may be.
    choices: String,
    text: String,
}

/// `wavetrain completions SHELL`.
pub fn completions(parser: &mut lexopt::Parser) -> Outcome<()> {
    let shell = parser.next()?.map(|argument| match argument {
        lexopt::Arg::Value(shell) => shell.to_string_lossy().into_owned(),
        other => format!("{other:?}"),
    });
    match shell.as_deref() {
        Some("bash") => report::print(&bash()),
        Some("zsh") => report::print(&zsh()),
        Some("fish") => report::print(&fish()),
        _ => usage("completions: give a shell, bash, zsh or fish"),
    }
}

/// `wavetrain man`.
pub fn man(parser: &mut lexopt::Parser) -> Outcome<()> {
    match parser.next()? {
        None => report::print(&page()),
        Some(other) => Err(other.unexpected().into()),
    }
}

/// The flags of a help text, in its order; "(short: --batch)" makes another one.
fn flags(help: &str) -> Vec<Flag> {
    let mut found: Vec<Flag> = Vec::new();
    let mut is_open = false;
    for line in help.lines() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if let Some(flag) = (2..CONTINUED).contains(&indent).then(|| flag(words)).flatten() {
            found.push(flag);
            is_open = true;
        } else if is_open && indent >= CONTINUED {
            let text = &mut found.last_mut().unwrap().text;
            // A list of names is broken after a bar.
            let space = if text.ends_with('|') { "" } else { " " };
            *text = format!("{text}{space}{words}");
        } else {
            is_open = false;
        }
    }
    for flag in &mut found {
        flag.choices = choices(&flag.text);
    }
    let shorts = found.iter().filter_map(|flag| {
        let (_, name) = flag.text.split_once("(short: --")?;
        let name = name.split_once(')')?.0.to_string();
        let (value, text) = (flag.value.clone(), flag.text.clone());
        Some(Flag { short: None, name, value, choices: String::new(), text })
    });
    let shorts: Vec<Flag> = shorts.collect();
    found.extend(shorts);
    once(found)
}

/// Each name once: a command's own flag stands in front of the config's, whose choices it takes.
fn once(flags: Vec<Flag>) -> Vec<Flag> {
    let mut found: Vec<Flag> = Vec::new();
    for flag in flags {
        match found.iter_mut().find(|earlier| earlier.name == flag.name) {
            Some(earlier) if earlier.choices.is_empty() => earlier.choices = flag.choices,
            Some(_) => {}
            None => found.push(flag),
        }
    }
    found
}

/// A flag from its first line, "-o, --out FILE  text".
fn flag(words: &str) -> Option<Flag> {
    let (short, long) = match words.strip_prefix('-')?.split_once(", --") {
        Some((short, long)) if short.len() == 1 => (short.chars().next(), long),
        _ => (None, words.strip_prefix("--")?),
    };
    let (head, text) = long.split_once("  ")?;
    let (name, value) = head.split_once(' ').unwrap_or((head, ""));
    // A flag of the config has no name for its value.
    let value = if value.is_empty() && takes_value(name) { "value" } else { value };
    let [name, value, text] = [name, value, text.trim()].map(str::to_string);
    Some(Flag { short, name, value, choices: String::new(), text })
}

/// "auto|host|cuda" of "where batches are made: auto|host|cuda [host]", with spaces.
fn choices(text: &str) -> String {
    let list = text.split(' ').find(|word| word.contains('|'));
    list.unwrap_or("").trim_end_matches([';', ',']).replace('|', " ")
}

/// A text for a line of a menu: up to the first end of a sentence or of a part.
fn menu(text: &str) -> String {
    let end = text.find(['[', ';', '(']).unwrap_or(text.len());
    let text = text[..end].split(": ").next().unwrap_or("").trim();
    text.chars().filter(|c| !"'\"`\\$()".contains(*c)).collect()
}

/// The commands of the main help, and what each does.
fn commands() -> Vec<(String, String)> {
    let lines = crate::HELP.lines().filter_map(|line| line.strip_prefix("  wavetrain "));
    let parts = lines.filter_map(|line| line.split_once("  "));
    let name = |usage: &str| usage.split(' ').next().unwrap_or("").to_string();
    parts.map(|(usage, text)| (name(usage), text.trim().to_string())).collect()
}

fn names() -> String {
    commands().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}

fn is_path(flag: &Flag) -> bool {
    ["FILE", "DIR"].contains(&flag.value.as_str()) || flag.text.starts_with("path of")
}

fn bash() -> String {
    let mut out = format!(
        r#"# bash completion for wavetrain, written by `wavetrain completions bash`.
_wavetrain() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
    local command= flags= i
    COMPREPLY=()
    # --flag=value is three words.
    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case " {0} " in
        *" ${{COMP_WORDS[i]}} "*) command=${{COMP_WORDS[i]}} && break ;;
        esac
    done
    case "$command $before" in
"#,
        names()
    );
    for (command, help) in COMMANDS {
        for flag in flags(&help()).iter().filter(|flag| !flag.choices.is_empty()) {
            let _ = writeln!(
                out,
                "    '{command} --{}') COMPREPLY=($(compgen -W '{}' -- \"$word\")) && return ;;",
                flag.name, flag.choices
            );
        }
    }
    let _ = write!(
        out,
        "    'completions completions') \
         COMPREPLY=($(compgen -W '{SHELLS}' -- \"$word\")) && return ;;
    esac
    case $command in
    '') flags='--help --version' ;;
"
    );
    for (command, help) in COMMANDS {
        let flags = flags(&help());
        let flags: Vec<String> = flags.iter().map(|flag| format!("--{}", flag.name)).collect();
        let _ = writeln!(out, "    {command}) flags='{} --help' ;;", flags.join(" "));
    }
    let _ = write!(
        out,
        r#"    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    elif [[ -z $command ]]; then
        COMPREPLY=($(compgen -W '{}' -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _wavetrain wavetrain
"#,
        names()
    );
    out
}

fn zsh() -> String {
    let mut out = String::from(
        "#compdef wavetrain\n# zsh completion for wavetrain, by `wavetrain completions zsh`.\n\
         local -a commands\ncommands=(\n",
    );
    for (name, text) in commands() {
        let _ = writeln!(out, "    '{name}:{}'", menu(&text).replace(':', "\\:"));
    }
    out += ")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    \
            _arguments '--help[the commands]' '--version[the version]'\n    return\nfi\n\
            shift words\n(( CURRENT-- ))\ncase $words[1] in\n";
    for (command, help) in COMMANDS {
        let _ = writeln!(out, "{command})\n    _arguments \\");
        for flag in flags(&help()) {
            let _ = writeln!(out, "        {} \\", zsh_flag(&flag));
        }
        out += "        '--help[the help of the command]' '*:uri:_files' ;;\n";
    }
    let _ = writeln!(out, "completions)\n    _values shell {SHELLS} ;;\nesac");
    out
}

/// "'--backend=[place of batches]:value:(auto host cuda)'", or one for both names of a flag,
/// "{-o+,--out=}'[a file]:file:_files'".
fn zsh_flag(flag: &Flag) -> String {
    let text = menu(&flag.text);
    let values = match (flag.choices.as_str(), is_path(flag)) {
        ("", true) => "_files".to_string(),
        ("", false) => String::new(),
        (choices, _) => format!("({choices})"),
    };
    let value = flag.value.to_lowercase();
    let (long, part) = match value.as_str() {
        "" => (format!("--{}", flag.name), format!("[{text}]")),
        _ => (format!("--{}=", flag.name), format!("[{text}]:{value}:{values}")),
    };
    match flag.short {
        None => format!("'{long}{part}'"),
        Some(short) => {
            let plus = if value.is_empty() { "" } else { "+" };
            format!("'(-{short} --{})'{{-{short}{plus},{long}}}'{part}'", flag.name)
        }
    }
}

fn fish() -> String {
    let mut out =
        String::from("# fish completion for wavetrain, written by `wavetrain completions fish`.\n");
    for (name, text) in commands() {
        let text = menu(&text);
        let _ = writeln!(
            out,
            "complete -c wavetrain -n __fish_use_subcommand -f -a {name} -d '{text}'"
        );
    }
    out += "complete -c wavetrain -n __fish_use_subcommand -l version -d 'the version'\n\
            complete -c wavetrain -l help -d 'the help, or that of the command'\n";
    let _ = writeln!(
        out,
        "complete -c wavetrain -n '__fish_seen_subcommand_from completions' -f -a '{SHELLS}'"
    );
    for (command, help) in COMMANDS {
        for flag in flags(&help()) {
            let mut line = format!(
                "complete -c wavetrain -n '__fish_seen_subcommand_from {command}' -l {}",
                flag.name
            );
            flag.short.into_iter().for_each(|short| line += &format!(" -s {short}"));
            line += match (flag.value.is_empty(), flag.choices.is_empty(), is_path(&flag)) {
                (true, _, _) => "",
                (false, true, true) => " -r",
                _ => " -x",
            };
            if !flag.choices.is_empty() {
                line += &format!(" -a '{}'", flag.choices);
            }
            let _ = writeln!(out, "{line} -d '{}'", menu(&flag.text));
        }
    }
    out
}

/// The manual page.
fn page() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        ".\\\" `wavetrain man` writes this page.\n.TH WAVETRAIN 1 \"\" \"wavetrain {version}\" \
         \"wavetrain\"\n.SH NAME\nwavetrain \\- stream boxes of chunked arrays into batches\n\
         .SH SYNOPSIS\n.B wavetrain\n.I command\n[\n.I arguments\n]\n.SH DESCRIPTION\n"
    );
    out += &roff(crate::HELP);
    for (name, help) in COMMANDS {
        let help = help();
        let own = help.split_once(CONFIG).map_or(help.as_str(), |(own, _)| own);
        let _ = write!(out, ".SH {}\n{}", name.to_uppercase(), roff(own));
        if own.len() < help.len() {
            out += ".PP\nThe flags of the config follow below.\n";
        }
    }
    let _ = write!(out, ".SH CONFIG FLAGS\nSizes take suffixes: 64MiB, 4k.\n");
    out += &roff(&fields_help());
    let _ = write!(out, ".SH AUGMENT FILES\n{}", roff(augments::HELP.trim_start()));
    out
}

/// A help text as roff: flags are items, other indented lines stay as they are.
fn roff(help: &str) -> String {
    let mut out = String::new();
    let mut is_as_it_is = false;
    let mut is_item = false;
    for line in help.lines() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        let flag = (2..CONTINUED).contains(&indent).then(|| flag(words)).flatten();
        let is_code = indent >= 2 && flag.is_none() && !(is_item && indent >= CONTINUED);
        if is_as_it_is != is_code {
            out += if is_code { ".PP\n.nf\n" } else { ".fi\n" };
            is_as_it_is = is_code;
        }
        match flag {
            Some(flag) => {
                let short = flag.short.map_or(String::new(), |short| format!("-{short}, "));
                let head = escaped(&format!("{short}--{}", flag.name));
                let value = escaped(&flag.value);
                let _ = writeln!(out, ".TP\n\\fB{head}\\fR \\fI{value}\\fR");
                let _ = writeln!(out, "{}", escaped(&flag.text));
                is_item = true;
            }
            None if words.is_empty() => {
                out += ".PP\n";
                is_item = false;
            }
            None if is_code => {
                let _ = writeln!(out, "{}", escaped(line));
            }
            None => {
                let _ = writeln!(out, "{}", escaped(words));
            }
        }
    }
    if is_as_it_is { out + ".fi\n" } else { out }
}

/// A line without a meaning for roff.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_help_text_are_found() {
        let help = "\
Does it.

  wavetrain do URI --no flag

  -o, --out FILE        a file;
                        or two
      --json            as JSON
  --backend                       place of batches: auto|
                                  host [host]
  --n-decode-threads              threads (short: --threads) [0]

Text.
";
        let flags = flags(help);
        let named = |name: &str| flags.iter().find(|flag| flag.name == name).unwrap();
        let names: Vec<&str> = flags.iter().map(|flag| flag.name.as_str()).collect();
        assert_eq!(names, ["out", "json", "backend", "n-decode-threads", "threads"]);
        let out = named("out");
        let parts = (out.short, out.value.as_str(), out.text.as_str());
        assert_eq!(parts, (Some('o'), "FILE", "a file; or two"));
        assert_eq!(named("json").value, "");
        assert_eq!(named("backend").choices, "auto host");
        assert_eq!(named("threads").value, "value");
    }

    #[test]
    fn a_flag_that_the_config_has_too_is_listed_once() {
        let own = "  --dtype TYPE      [source]\n  --dtype           element type: f32|u8 [f32]\n";
        let flags = flags(own);
        assert_eq!(flags.len(), 1);
        assert_eq!((flags[0].text.as_str(), flags[0].choices.as_str()), ("[source]", "f32 u8"));
    }

    #[test]
    fn every_command_has_flags_and_a_line_in_the_main_help() {
        let names: Vec<String> = commands().into_iter().map(|(name, _)| name).collect();
        for (name, help) in COMMANDS {
            assert!(names.iter().any(|known| known == name), "{name}");
            assert!(flags(&help()).iter().any(|flag| flag.name == "json" || name == "demo"));
        }
        assert_eq!(names.len(), COMMANDS.len() + 2);
    }

    #[test]
    fn lines_of_roff_have_no_commands_of_their_own() {
        assert_eq!(roff("a - b\n.c\n  d \\e\n"), "a \\- b\n\\&.c\n.PP\n.nf\n  d \\ee\n.fi\n");
        let page = page();
        assert!(page.contains(".TP\n\\fB\\-\\-backend\\fR \\fIvalue\\fR\n"));
        assert_eq!(page.matches("\n.nf\n").count(), page.matches("\n.fi\n").count());
    }
}
