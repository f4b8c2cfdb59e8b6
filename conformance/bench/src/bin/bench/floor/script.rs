//! Writes what `replay.c` reads.

use super::calls::{Call, Pointer, pointers};

const RESULT_IS_FILE: i64 = 1;
const ANSWER: i64 = 2;
const KEEP_OPEN: i64 = 4;

/// `struct call`
const WORDS: usize = 12;
/// Where the descriptor is in control data: after a `struct cmsghdr`.
const DESCRIPTOR: usize = 16;

/// The calls and the bytes that they point to.
#[derive(Default)]
struct Script {
    words: Vec<i64>,
    data: Vec<u8>,
    start_of_data: usize,
}

/// Makes the script of these calls, in which texts in paths are replaced by others.
pub fn script(calls: &[Call], texts: [(&str, &str); 2]) -> Vec<u8> {
    let mut script = Script { start_of_data: (1 + WORDS * calls.len()) * size_of::<i64>(), ..Script::default() };
    script.words.push(i64::try_from(calls.len()).expect("a few hundred calls"));
    calls.iter().for_each(|call| script.push(call, texts));
    let words = script.words.into_iter().flat_map(i64::to_ne_bytes);
    words.chain(script.data).collect()
}

impl Script {
    fn push(&mut self, call: &Call, texts: [(&str, &str); 2]) {
        let (mut arguments, mut in_script, mut in_scratch) = (call.arguments, 0, 0);
        for (place, pointer) in pointers(call.number).expect("an unavoidable call is known").iter().copied() {
            let bit = 1 << place;
            match (pointer, call.inputs.get(&place)) {
                (Pointer::Answer, _) => in_scratch |= bit,
                (Pointer::Text, Some(text)) => {
                    arguments[place] = self.store(&replaced(text, texts));
                    in_script |= bit;
                }
                (_, Some(bytes)) if !bytes.is_empty() => {
                    arguments[place] = self.store(bytes);
                    in_script |= bit;
                }
                _ => {}
            }
        }
        let (kind, answer) = match call.number {
            libc::SYS_sendmsg => {
                let descriptor = &call.input(1)[DESCRIPTOR..DESCRIPTOR + 4];
                arguments[0] = i32::from_ne_bytes(descriptor.try_into().expect("four bytes")).into();
                in_script = 0;
                (KEEP_OPEN, 0)
            }
            libc::SYS_recvfrom if call.result > 0 => (ANSWER, self.store(&call.answer)),
            _ if call.opens() => (RESULT_IS_FILE, 0),
            _ => (0, 0),
        };
        self.words.extend([call.number, kind, in_script, in_scratch]);
        self.words.extend(arguments);
        self.words.extend([call.result, answer]);
    }

    /// Stores bytes, and returns their offset in the script.
    fn store(&mut self, bytes: &[u8]) -> i64 {
        let offset = self.start_of_data + self.data.len();
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(size_of::<i64>()), 0);
        i64::try_from(offset).expect("a small script")
    }
}

fn replaced(text: &[u8], texts: [(&str, &str); 2]) -> Vec<u8> {
    let text = str::from_utf8(text).expect("paths of plugins are text").to_owned();
    texts.iter().fold(text, |text, (from, to)| text.replace(from, to)).into_bytes()
}
