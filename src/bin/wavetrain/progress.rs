//! How far a command is: a bar on standard error, if that is a terminal.
//!
//! In: how many things there are, and how many are done. Out: what is done, all, the rate and the
//! time left, on one line, which is gone after the last. One bar is shown at a time: another that
//! begins meanwhile stays hidden. Lines that a command writes go through [`aside`].

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Mutex, PoisonError};

/// The bar that is on the terminal.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A bar for as long as this lives.
pub struct Progress {
    bar: ProgressBar,
    is_shown: bool,
}

impl Progress {
    /// Begins a bar; None if nobody knows yet how many things there are.
    pub fn begin(count: Option<u64>, what: &'static str) -> Progress {
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = ProgressBar::hidden();
        bar.set_message(what);
        let progress = Progress { bar, is_shown: shown.is_none() };
        progress.set_count(count);
        if progress.is_shown {
            // This target draws only on a terminal.
            progress.bar.set_draw_target(ProgressDrawTarget::stderr());
            *shown = Some(progress.bar.clone());
        }
        progress
    }

    /// Sets how many things there are.
    pub fn set_count(&self, count: Option<u64>) {
        let template = match count {
            Some(_) => {
                "{msg:20} {wide_bar:.cyan/blue} {human_pos}/{human_len}  {per_sec}  {eta} left"
            }
            None => "{msg:20} {human_pos}  {per_sec}",
        };
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar.set_style(style.progress_chars("━╸─"));
        match count {
            Some(count) => self.bar.set_length(count),
            None => self.bar.unset_length(),
        }
    }

    /// So many more are done.
    pub fn step(&self, count: u64) {
        self.bar.inc(count);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if self.is_shown {
            *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Runs `write`, which writes whole lines to the terminal, while no bar is on it.
pub fn aside<T>(write: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
