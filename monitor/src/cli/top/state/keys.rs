//! Which key does what. The help of the screen lists them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Order, Pane, Showing, State, Wish};
use crate::cli::top::panes;
use crate::cli::top::rows::Column;

/// A filter is a part of a name; paths are longer than any useful one.
const LONGEST_FILTER: usize = 200;

/// How far the arrows and their like go.
#[derive(Debug, Clone, Copy)]
enum Far {
    Up(usize),
    Down(usize),
    First,
    Last,
}

impl State {
    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => self.wish = Some(Wish::Quit),
            KeyCode::Char('z') if has_control => self.wish = Some(Wish::Stop),
            _ if self.is_typing => self.type_filter(key.code),
            _ if self.has_help => self.has_help = false,
            KeyCode::Char('q') => self.wish = Some(Wish::Quit),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.has_help = true,
            KeyCode::Char(' ') => self.pause(),
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(Pane::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='3') => {
                let pane = usize::from(digit == '2') + 2 * usize::from(digit == '3');
                self.open(Pane::ALL[pane]);
            }
            KeyCode::Esc | KeyCode::Backspace => self.back(),
            KeyCode::Enter => self.explain(),
            _ => self.press_in_place(key.code),
        }
    }

    fn press_in_place(&mut self, key: KeyCode) {
        if let Some(far) = self.far(key) {
            return self.go(far);
        }
        match (self.showing, order(key)) {
            (Showing::Recording, Some(order)) => {
                self.is_paused = true;
                self.wish = Some(Wish::Show(order));
            }
            _ if self.is_list() => self.arrange(key),
            _ => {}
        }
    }

    fn far(&self, key: KeyCode) -> Option<Far> {
        let page = panes::height(self).saturating_sub(1).max(1);
        match key {
            KeyCode::Up | KeyCode::Char('k') => Some(Far::Up(1)),
            KeyCode::Down | KeyCode::Char('j') => Some(Far::Down(1)),
            KeyCode::PageUp => Some(Far::Up(page)),
            KeyCode::PageDown => Some(Far::Down(page)),
            KeyCode::Home => Some(Far::First),
            KeyCode::End => Some(Far::Last),
            _ => None,
        }
    }

    fn go(&mut self, far: Far) {
        let is_list = self.is_list();
        let rows = if is_list { self.rows() } else { Vec::new() };
        let (at, last) = match is_list {
            true => (self.chosen_of(&rows), rows.len().saturating_sub(1)),
            false => (self.scroll, self.last_scroll()),
        };
        let to = match far {
            Far::Up(by) => at.saturating_sub(by),
            Far::Down(by) => at.saturating_add(by).min(last),
            Far::First => 0,
            Far::Last => last,
        };
        if !is_list {
            self.scroll = to;
            return;
        }
        // The first row is whichever comes first; any other is a cgroup.
        self.chosen = rows.get(to).filter(|_| to > 0).map(|row| row.id);
        self.at = to;
    }

    /// Order and form of the list.
    fn arrange(&mut self, key: KeyCode) {
        let left = Column::ALL.len() - 1;
        match key {
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s' | '>') => self.list.sort = self.list.sort.beside(1),
            KeyCode::Char('<') => self.list.sort = self.list.sort.beside(left),
            KeyCode::Char('r') => self.list.is_reversed = !self.list.is_reversed,
            KeyCode::Char('t') => self.list.is_tree = !self.list.is_tree,
            KeyCode::Char('a') => self.list.shows_all = !self.list.shows_all,
            KeyCode::Char('-' | '+') | KeyCode::Left | KeyCode::Right if self.list.is_tree => {
                self.fold(matches!(key, KeyCode::Char('-') | KeyCode::Left));
            }
            _ => return,
        }
        self.settle();
    }

    fn fold(&mut self, is_folded: bool) {
        let rows = self.rows();
        let Some(id) = rows.get(self.chosen_of(&rows)).map(|row| row.id) else { return };
        match is_folded {
            true => self.list.folded.insert(id),
            false => self.list.folded.remove(&id),
        };
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.list.filter.clear();
            }
            KeyCode::Backspace => {
                self.list.filter.pop();
            }
            KeyCode::Char(c) if self.list.filter.chars().count() < LONGEST_FILTER => {
                self.list.filter.push(c);
            }
            _ => return,
        }
        self.settle();
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if !self.is_paused && self.showing == Showing::Present {
            self.resume();
            self.settle();
        }
    }

    fn turn(&mut self, by: usize) {
        let at = Pane::ALL.iter().position(|pane| *pane == self.pane).unwrap_or(0);
        self.open(Pane::ALL[(at + by) % Pane::ALL.len()]);
    }

    fn open(&mut self, pane: Pane) {
        (self.pane, self.why, self.scroll) = (pane, None, 0);
    }

    /// One step back: from an explanation to the list, from a filter to all.
    fn back(&mut self) {
        if self.why.take().is_none() {
            self.list.filter.clear();
        }
        self.scroll = 0;
        self.settle();
    }

    fn explain(&mut self) {
        if !self.is_list() {
            return;
        }
        let rows = self.rows();
        let Some(id) = rows.get(self.chosen_of(&rows)).map(|row| row.id) else { return };
        (self.chosen, self.why, self.scroll) = (Some(id), Some(id), 0);
        self.ask_earlier();
        self.settle();
    }

    pub(in crate::cli::top) fn is_list(&self) -> bool {
        self.pane == Pane::Cgroups && self.why.is_none()
    }
}

fn order(key: KeyCode) -> Option<Order> {
    match key {
        KeyCode::Right | KeyCode::Char('l' | '.') => Some(Order::Next),
        KeyCode::Left | KeyCode::Char(',') => Some(Order::Previous),
        KeyCode::Char('n') => Some(Order::NextEvent),
        KeyCode::Char('N' | 'p') => Some(Order::PreviousEvent),
        KeyCode::Char('b') => Some(Order::First),
        KeyCode::Char('e') => Some(Order::Last),
        _ => None,
    }
}
