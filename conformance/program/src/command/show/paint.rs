//! Colours, only for terminals.

use std::env;
use std::io::IsTerminal;

/// The colour of a word.
#[derive(Debug, Clone, Copy)]
pub enum Colour {
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
}

/// Paints, or leaves words as they are.
#[derive(Debug, Clone, Copy)]
pub struct Painter {
    on: bool,
}

impl Painter {
    /// Paints when standard output is a terminal and `NO_COLOR` is not set.
    pub fn for_stdout() -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { on: std::io::stdout().is_terminal() && !unwanted }
    }

    /// Paints a text.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Bold => 1,
            Colour::Dim => 2,
            Colour::Green => 32,
            Colour::Red => 31,
            Colour::Yellow => 33,
        };
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Colour, Painter};

    #[test]
    fn only_a_painter_that_is_on_paints() {
        assert_eq!(Painter { on: false }.paint(Colour::Red, "no"), "no");
        assert_eq!(Painter { on: true }.paint(Colour::Red, "no"), "\x1b[31mno\x1b[0m");
    }
}
