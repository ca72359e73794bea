//! A JSON value together with the way to it, and the errors that name both.
//!
//! Comes in: values of a checked document. Goes out: what they mean, or a status whose text is
//! "FILE: codecs[0].configuration.level at byte 812: REASON". Invariant: a missing or ill-typed
//! member is DECODE, a member or value that is not known is UNSUPPORTED.

use crate::base::text::Tail;
use crate::fail;
use crate::json::{Error, Fault, Kind, Members, Str, Value};
use crate::limits::RANK_MAX;
use crate::status::{Status, Why};
use arrayvec::ArrayVec;
use core::fmt;

/// Longest way to a member that is read, in a shard of a shard:
/// codecs[0].configuration.codecs[0].configuration.index_codecs[1].configuration.x.
const STEPS_MAX: usize = 12;

/// Bytes of the uri that a text shows; the rest of the text is for the reason.
const SHOWN_URI_BYTES: usize = 160;

#[derive(Clone, Copy)]
enum Step {
    Name(&'static str),
    Index(usize),
}

/// A value and the way to it.
#[derive(Clone)]
pub(super) struct Node<'a> {
    pub value: Value<'a>,
    steps: ArrayVec<Step, STEPS_MAX>,
}

impl<'a> Node<'a> {
    /// The value of the whole document.
    pub fn root(value: Value<'a>) -> Self {
        Node { value, steps: ArrayVec::new() }
    }

    /// The member `name`, which is `value`.
    fn member(&self, name: &'static str, value: Value<'a>) -> Self {
        self.step(Step::Name(name), value)
    }

    /// The item `index`, which is `value`.
    fn item(&self, index: usize, value: Value<'a>) -> Self {
        self.step(Step::Index(index), value)
    }

    fn step(&self, step: Step, value: Value<'a>) -> Self {
        let mut steps = self.steps.clone();
        // A way that is too long loses its end in texts, nothing else.
        let _ = steps.try_push(step);
        Node { value, steps }
    }
}

impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str("the document");
        }
        for (position, step) in self.steps.iter().enumerate() {
            match step {
                Step::Name(name) if position == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        write!(f, " at byte {}", self.value.offset())
    }
}

/// An extension point's value: a name and what configures it.
pub(super) struct Extension<'a> {
    /// The value as a whole, for texts.
    pub node: Node<'a>,
    pub name: Str<'a>,
    /// None where the document has no configuration.
    pub configuration: Option<Node<'a>>,
    /// The member of the configuration that holds the name, where it stands among the parameters.
    pub name_member: Option<&'static str>,
}

/// The name of a document as texts show it.
struct FileName<'w> {
    uri: &'w str,
    file_name: &'static str,
}

impl fmt::Display for FileName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Tail(self.uri, SHOWN_URI_BYTES), self.file_name)
    }
}

/// Reads one document and fills the text when something is wrong.
pub(super) struct Reader<'w> {
    uri: &'w str,
    file_name: &'static str,
    why: &'w mut Why,
}

impl<'w> Reader<'w> {
    /// A reader of the document `file_name` of the array or group at `uri`.
    pub fn new(uri: &'w str, file_name: &'static str, why: &'w mut Why) -> Self {
        Reader { uri, file_name, why }
    }

    fn file(&self) -> FileName<'w> {
        FileName { uri: self.uri, file_name: self.file_name }
    }

    /// The document is not JSON.
    pub fn malformed(&mut self, error: Error) -> Status {
        let file = self.file();
        match error.fault {
            Fault::Depth => {
                fail!(self.why, Unsupported, "{file}: {error}, move attributes out of it")
            }
            _ => fail!(self.why, Decode, "{file}: {error}"),
        }
    }

    /// `node` is not what the format says.
    pub fn decode(&mut self, node: &Node<'_>, reason: fmt::Arguments<'_>) -> Status {
        fail!(self.why, Decode, "{}: {node}: {reason}", self.file())
    }

    /// `node` is something that is not read.
    pub fn unsupported(&mut self, node: &Node<'_>, reason: fmt::Arguments<'_>) -> Status {
        fail!(self.why, Unsupported, "{}: {node}: {reason}", self.file())
    }

    /// There is no array at the uri.
    pub fn not_found(&mut self, reason: &str) -> Status {
        fail!(self.why, NotFound, "{}: {reason}", self.file())
    }

    /// `node` has another type than `expected`.
    fn ill_typed(&mut self, node: &Node<'_>, expected: &str) -> Status {
        let kind = node.value.kind().name();
        match node.value.kind() {
            Kind::Array | Kind::Object => self.decode(node, format_args!("{kind}, not {expected}")),
            _ => self.decode(node, format_args!("{}, not {expected}", node.value)),
        }
    }

    /// The members of an object.
    pub fn members<'a>(&mut self, node: &Node<'a>) -> Result<Members<'a>, Status> {
        node.value.members().ok_or_else(|| self.ill_typed(node, "an object"))
    }

    /// The members `names` of an object; `other` sees the rest.
    pub fn pick<'a, const N: usize>(
        &mut self,
        node: &Node<'a>,
        names: &[&'static str; N],
        other: impl FnMut(Str<'a>, Value<'a>),
    ) -> Result<[Option<Node<'a>>; N], Status> {
        let values = self.members(node)?.pick(names, other).map_err(|error| self.malformed(error));
        let mut values = values?;
        Ok(core::array::from_fn(|place| {
            values[place].take().map(|value| node.member(names[place], value))
        }))
    }

    /// The members `names` of an object that has no others.
    pub fn pick_all<'a, const N: usize>(
        &mut self,
        node: &Node<'a>,
        names: &[&'static str; N],
    ) -> Result<[Option<Node<'a>>; N], Status> {
        self.pick_all_but(node, names, None)
    }

    /// The members `names` of an object that has no others but `passed_over`.
    fn pick_all_but<'a, const N: usize>(
        &mut self,
        node: &Node<'a>,
        names: &[&'static str; N],
        passed_over: Option<&str>,
    ) -> Result<[Option<Node<'a>>; N], Status> {
        let mut unknown = None;
        let nodes = self.pick(node, names, |name, value| {
            if passed_over.is_none_or(|passed_over| name != *passed_over) {
                unknown.get_or_insert((name, value));
            }
        })?;
        match unknown {
            None => Ok(nodes),
            Some((name, value)) => {
                let reason = format_args!("member {name} = {value} is not known");
                Err(self.unsupported(node, reason))
            }
        }
    }

    /// A member that must be there.
    pub fn required<'a>(
        &mut self,
        parent: &Node<'_>,
        name: &str,
        node: Option<Node<'a>>,
    ) -> Result<Node<'a>, Status> {
        node.ok_or_else(|| self.decode(parent, format_args!("member \"{name}\" is missing")))
    }

    /// A string.
    pub fn string<'a>(&mut self, node: &Node<'a>) -> Result<Str<'a>, Status> {
        node.value.as_str().ok_or_else(|| self.ill_typed(node, "a string"))
    }

    /// A boolean.
    pub fn boolean(&mut self, node: &Node<'_>) -> Result<bool, Status> {
        node.value.as_bool().ok_or_else(|| self.ill_typed(node, "a boolean"))
    }

    /// A whole number of `first..=last`.
    pub fn integer(&mut self, node: &Node<'_>, first: i64, last: i64) -> Result<i64, Status> {
        if !node.value.is_integer() {
            return Err(self.ill_typed(node, "a whole number"));
        }
        match node.value.as_i64() {
            Some(value) if (first..=last).contains(&value) => Ok(value),
            _ => {
                let reason = format_args!("{} is outside of {first} to {last}", node.value);
                Err(self.decode(node, reason))
            }
        }
    }

    /// A number that is finite.
    pub fn number(&mut self, node: &Node<'_>) -> Result<f64, Status> {
        match node.value.as_f64() {
            Some(value) if value.is_finite() => Ok(value),
            Some(_) => Err(self.decode(node, format_args!("{} is beyond f64", node.value))),
            None => Err(self.ill_typed(node, "a number")),
        }
    }

    /// One number per axis, each at least `least`: its count and the numbers.
    pub fn extents(&mut self, node: &Node<'_>, least: i64) -> Result<Extents, Status> {
        let Some(items) = node.value.items() else {
            return Err(self.ill_typed(node, "an array"));
        };
        let mut extents = Extents::new();
        for (axis, value) in items.enumerate() {
            if extents.is_full() {
                let reason = format_args!("more than {RANK_MAX} axes are not read");
                return Err(self.unsupported(node, reason));
            }
            let item = node.item(axis, value);
            extents.push(self.extent(&item, least)?);
        }
        Ok(extents)
    }

    /// A number of elements, at least `least`.
    pub fn extent(&mut self, node: &Node<'_>, least: i64) -> Result<u64, Status> {
        let value = node.value;
        if !value.is_integer() {
            return Err(self.ill_typed(node, "a whole number"));
        }
        match value.as_i64() {
            Some(extent) if extent >= least => Ok(extent as u64),
            // Past i64 a number keeps its sign.
            None if !value.source().starts_with('-') => {
                let reason = format_args!("{value} is beyond the largest extent, 2^63 - 1");
                Err(self.unsupported(node, reason))
            }
            _ => Err(self.decode(node, format_args!("{value}, but at least {least} is needed"))),
        }
    }

    /// The items of an array.
    pub fn items<'a>(
        &mut self,
        node: &Node<'a>,
    ) -> Result<impl Iterator<Item = Node<'a>> + use<'a>, Status> {
        let Some(items) = node.value.items() else {
            return Err(self.ill_typed(node, "an array"));
        };
        let node = node.clone();
        Ok(items.enumerate().map(move |(index, value)| node.item(index, value)))
    }

    /// A name alone, or an object of a name and a configuration.
    pub fn extension<'a>(&mut self, node: &Node<'a>) -> Result<Extension<'a>, Status> {
        if let Some(name) = node.value.as_str() {
            return Ok(Extension {
                node: node.clone(),
                name,
                configuration: None,
                name_member: None,
            });
        }
        if node.value.kind() != Kind::Object {
            return Err(self.ill_typed(node, "a name or an object with a name"));
        }
        let names = ["name", "configuration", "must_understand"];
        let [name, configuration, must_understand] = self.pick_all(node, &names)?;
        let name = self.required(node, "name", name)?;
        let name = self.string(&name)?;
        if let Some(configuration) = &configuration {
            self.members(configuration)?;
        }
        // Whatever it says: what is named here is either understood or refused.
        if let Some(must_understand) = must_understand {
            self.boolean(&must_understand)?;
        }
        Ok(Extension { node: node.clone(), name, configuration, name_member: None })
    }

    /// The members `names` of an extension's configuration; all None where it has none.
    pub fn configuration<'a, const N: usize>(
        &mut self,
        extension: &Extension<'a>,
        names: &[&'static str; N],
    ) -> Result<[Option<Node<'a>>; N], Status> {
        match &extension.configuration {
            Some(node) => self.pick_all_but(node, names, extension.name_member),
            None => Ok([const { None }; N]),
        }
    }
}

/// One extent per axis.
pub(super) type Extents = ArrayVec<u64, RANK_MAX>;
