//! The values of one document: what they mean, and errors that name the way to a value.
//!
//! Comes in: a document. Goes out: its values as [`Node`]s, which know their document. What is
//! wrong with one becomes a status whose text is
//! "FILE: codecs[0].configuration.level at byte 812: REASON". Invariant: a missing or ill-typed
//! member is DECODE, a member or value that is not known is UNSUPPORTED.
//!
//! Lists of names are one text with a space between two names. Only who refuses a value needs the
//! way to it, so nothing is noted on the way down: it is looked for again in the document.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::source::json::{self, Fault, Kind, Str, Value};
use arrayvec::ArrayVec;
use core::cell::Cell;
use core::fmt;
use core::ops::Deref;

/// Bytes of the uri that a text shows; the rest of the text is for the reason.
const SHOWN_URI_BYTES: usize = 160;

/// Longest member that is read; names are of ours, so a way shows them whole.
const NAME_BYTES: usize = 32;

/// Most members that are taken out of one object.
const MEMBERS_MAX: usize = 10;

/// Members in the order in which they were asked for; those that are absent are ABSENT.
pub(super) type Picked<'r, 'a> = [Node<'r, 'a>; MEMBERS_MAX];

/// A member of an object.
type Member<'r, 'a> = (Str<'a>, Node<'r, 'a>);

/// One extent per axis.
pub(super) type Extents = ArrayVec<u64, RANK_MAX>;

/// A document of the array or group at `uri`, and the text that its fault is written to.
pub(super) struct Document<'r, 'a> {
    uri: &'r str,
    name: &'static str,
    bytes: &'a [u8],
    /// In a cell, because every node of the document may be the one that is refused.
    why: Cell<Option<&'r mut Why>>,
}

impl<'r, 'a> Document<'r, 'a> {
    pub fn new(uri: &'r str, name: &'static str, bytes: &'a [u8], why: &'r mut Why) -> Self {
        Document { uri, name, bytes, why: Cell::new(Some(why)) }
    }

    /// The value that the document is.
    pub fn root(&'r self) -> Result<Node<'r, 'a>, Status> {
        json::parse(self.bytes).map(|value| Node { value, document: self }).map_err(|error| {
            match error.fault {
                Fault::Depth => fail!(self, Unsupported, "{error}, move attributes out of it"),
                _ => fail!(self, Decode, "{error}"),
            }
        })
    }

    /// The document as a whole is refused.
    #[cold]
    #[inline(never)]
    pub fn fail(&self, status: Status, reason: fmt::Arguments<'_>) -> Status {
        if let Some(why) = self.why.take() {
            let uri = Tail(self.uri, SHOWN_URI_BYTES);
            why.fail(status, format_args!("{uri}/{}: {reason}", self.name));
            self.why.set(Some(why));
        }
        status
    }
}

/// A value of a document. Its `Display` is that of the value.
#[derive(Clone, Copy)]
pub(super) struct Node<'r, 'a> {
    value: Value<'a>,
    pub document: &'r Document<'r, 'a>,
}

impl<'a> Deref for Node<'_, 'a> {
    type Target = Value<'a>;
    fn deref(&self) -> &Value<'a> {
        &self.value
    }
}

impl fmt::Display for Node<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<'r, 'a> Node<'r, 'a> {
    fn with(self, value: Value<'a>) -> Self {
        Node { value, ..self }
    }

    /// Refuses the value.
    #[cold]
    #[inline(never)]
    pub fn fail(self, status: Status, reason: fmt::Arguments<'_>) -> Status {
        self.document.fail(status, format_args!("{}: {reason}", Way(self)))
    }

    /// The value names something that is not read: "WHAT "name" is not read, only KNOWN".
    #[cold]
    #[inline(never)]
    pub fn unknown(self, what: &str, name: Str<'_>, known: impl fmt::Display) -> Status {
        fail!(self, Unsupported, "{what} {name} is not read, only {known}")
    }

    /// The value names a type of texts, or of other things that have no fixed size.
    pub fn no_numbers(self, name: Str<'_>) -> Status {
        let way = "write numbers, such as the places of its words in a list";
        fail!(self, Unsupported, "data type {name} is text or objects, not read: {way}")
    }

    /// The value has more of something than is read.
    #[cold]
    #[inline(never)]
    pub fn too_many(self, most: usize, what: &str) -> Status {
        fail!(self, Unsupported, "more than {most} {what} are not read")
    }

    /// `found`, or the refusal of a value that is no `expected`.
    fn typed<T>(self, found: Option<T>, expected: &str) -> Result<T, Status> {
        found.ok_or_else(|| match self.kind() {
            Kind::Array | Kind::Object => {
                fail!(self, Decode, "{}, not {expected}", self.kind().name())
            }
            _ => fail!(self, Decode, "{self}, not {expected}"),
        })
    }

    /// The node, unless it stands for a member that is absent.
    pub fn found(self) -> Option<Self> {
        self.value.found().map(|_| self)
    }

    /// The node, unless it is null or stands for a member that is absent.
    pub fn present(self) -> Option<Self> {
        Some(self).filter(|node| node.kind() != Kind::Null)
    }

    /// The number that a string spells; any other value is itself.
    pub fn numeral(self) -> Self {
        self.with(self.value.numeral())
    }

    /// The members of an object.
    pub fn members(self) -> Result<impl Iterator<Item = Member<'r, 'a>>, Status> {
        let members = self.typed(self.value.members(), "an object")?;
        Ok(members.map(move |(name, value)| (name, self.with(value))))
    }

    /// The items of an array.
    pub fn items(self) -> Result<impl Iterator<Item = Node<'r, 'a>> + use<'r, 'a>, Status> {
        let items = self.typed(self.value.items(), "an array")?;
        Ok(items.map(move |value| self.with(value)))
    }

    /// The items of an array of `count`; `says` follows another number of them in the text.
    pub fn items_of(
        self,
        count: usize,
        says: fmt::Arguments<'_>,
    ) -> Result<impl Iterator<Item = Node<'r, 'a>> + use<'r, 'a>, Status> {
        let found = self.items()?.count();
        if found != count {
            return Err(fail!(self, Decode, "{found} {says}"));
        }
        self.items()
    }

    /// The members `names` of an object, of which the first `required` must exist. Others are
    /// passed over.
    pub fn pick(self, names: &str, required: usize) -> Result<Picked<'r, 'a>, Status> {
        self.pick_but(names, required, |_, _| true)
    }

    /// [`Self::pick`] from an object that has no others but those that may be passed over.
    pub fn pick_but(
        self,
        names: &str,
        required: usize,
        is_passed_over: fn(Str<'_>, Value<'_>) -> bool,
    ) -> Result<Picked<'r, 'a>, Status> {
        let (picked, other) = self.walk(names, is_passed_over)?;
        self.check_known(other)?;
        self.check_present(names, &picked[..required])?;
        Ok(picked)
    }

    /// Takes the members `names` of an object in one pass, and the first of the others that must
    /// not be passed over. A name that comes twice is an error, because two readers would see two
    /// documents.
    pub fn walk(
        self,
        names: &str,
        is_passed_over: fn(Str<'_>, Value<'_>) -> bool,
    ) -> Result<(Picked<'r, 'a>, Option<Member<'r, 'a>>), Status> {
        let (mut picked, mut other) = ([self.with(Value::ABSENT); MEMBERS_MAX], None);
        for (name, member) in self.members()? {
            match name.place_in(names) {
                Some(place) if picked[place].found().is_some() => {
                    let offset = member.offset_in(self.document.bytes);
                    let reason = "a member that occurs twice";
                    return Err(fail!(self.document, Decode, "{reason} at byte {offset}"));
                }
                Some(place) => picked[place] = member,
                None if other.is_some() || is_passed_over(name, member.value) => {}
                None => other = Some((name, member)),
            }
        }
        Ok((picked, other))
    }

    /// Refuses a member that is not known.
    pub fn check_known(self, other: Option<Member<'r, 'a>>) -> Result<(), Status> {
        let Some((name, member)) = other else { return Ok(()) };
        let reason = "is not known, and \"must_understand\" is not false: remove it";
        Err(fail!(self, Unsupported, "member {name} = {member} {reason}"))
    }

    /// Whether all of these members, the first of `names`, exist.
    pub fn check_present(self, names: &str, members: &[Self]) -> Result<(), Status> {
        match names.split(' ').zip(members).find(|(_, member)| member.found().is_none()) {
            Some((name, _)) => Err(fail!(self, Decode, "member \"{name}\" is missing")),
            None => Ok(()),
        }
    }

    /// Whether the number of a format is the one that is read under this name.
    pub fn check_format(self, expected: i64) -> Result<(), Status> {
        let version = self.integer(i64::MIN, i64::MAX)?;
        if version != expected {
            let reason = "is not read under this name, only";
            return Err(fail!(self, Unsupported, "{version} {reason} {expected}"));
        }
        Ok(())
    }

    /// A string.
    pub fn string(self) -> Result<Str<'a>, Status> {
        self.typed(self.as_str(), "a string")
    }

    /// The place of a string among `words`; `refusal` is the status of any other.
    pub fn choice(self, words: &str, refusal: Status) -> Result<usize, Status> {
        let name = self.string()?;
        name.place_in(words)
            .ok_or_else(|| self.fail(refusal, format_args!("{name} is neither {}", Words(words))))
    }

    /// A boolean.
    pub fn boolean(self) -> Result<bool, Status> {
        self.typed(self.as_bool(), "a boolean")
    }

    /// A whole number of any size; None if it is beyond i128.
    fn whole(self) -> Result<Option<i128>, Status> {
        self.typed(self.is_integer().then(|| self.as_integer()), "a whole number")
    }

    /// A whole number of `first..=last`.
    pub fn integer(self, first: i64, last: i64) -> Result<i64, Status> {
        match self.whole()?.and_then(|number| i64::try_from(number).ok()) {
            Some(number) if (first..=last).contains(&number) => Ok(number),
            _ => Err(fail!(self, Decode, "{self} is outside of {first} to {last}")),
        }
    }

    /// Checks a number of `first..=last` that may be absent.
    pub fn check_integer(self, first: i64, last: i64) -> Result<(), Status> {
        self.found().map_or(Ok(()), |node| node.integer(first, last).map(|_| ()))
    }

    /// A number of elements, at least `least`.
    pub fn extent(self, least: i64) -> Result<u64, Status> {
        match self.whole()?.map(i64::try_from) {
            Some(Ok(extent)) if extent >= least => Ok(extent as u64),
            // Too long for any integer, a number keeps its sign.
            None | Some(Err(_)) if !self.source().starts_with('-') => {
                Err(fail!(self, Unsupported, "{self} is beyond the largest extent, 2^63 - 1"))
            }
            _ => Err(fail!(self, Decode, "{self}, but at least {least} is needed")),
        }
    }

    /// One number per axis, each at least `least`.
    pub fn extents(self, least: i64) -> Result<Extents, Status> {
        let mut extents = Extents::new();
        for item in self.items()? {
            let extent = item.extent(least)?;
            extents.try_push(extent).map_err(|_| self.too_many(RANK_MAX, "axes"))?;
        }
        Ok(extents)
    }

    /// A number that is finite.
    pub fn number(self) -> Result<f64, Status> {
        match self.typed(self.as_f64(), "a number")? {
            number if number.is_finite() => Ok(number),
            _ => Err(fail!(self, Decode, "{self} is not finite in f64")),
        }
    }

    /// A name alone, or an object of a name and a configuration.
    pub fn extension(self) -> Result<Extension<'r, 'a>, Status> {
        if let Some(name) = self.as_str() {
            return Ok(Extension { node: self, name, configuration: None, has_id: false });
        }
        let is_object = (self.kind() == Kind::Object).then_some(());
        self.typed(is_object, "a name or an object with a name")?;
        let names = "name configuration must_understand";
        let [name, configuration, must_understand, ..] = self.pick_but(names, 1, |_, _| false)?;
        let (name, configuration) = (name.string()?, configuration.present());
        configuration.map(Node::members).transpose()?;
        // Whatever it says: each name is either understood or refused.
        must_understand.found().map(Node::boolean).transpose()?;
        Ok(Extension { node: self, name, configuration, has_id: false })
    }
}

/// An extension point's value: a name and what configures it.
pub(super) struct Extension<'r, 'a> {
    /// The value as a whole, for texts.
    pub node: Node<'r, 'a>,
    pub name: Str<'a>,
    /// None if the document has no configuration.
    pub configuration: Option<Node<'r, 'a>>,
    /// Whether the name stands among the parameters, as "id": so it does in zarr v2.
    pub has_id: bool,
}

impl<'r, 'a> Extension<'r, 'a> {
    /// The members `names` of the configuration, of which the first `required` must exist.
    pub fn pick(&self, names: &str, required: usize) -> Result<Picked<'r, 'a>, Status> {
        match self.configuration {
            Some(node) if self.has_id => node.pick_but(names, required, |name, _| name == *"id"),
            Some(node) => node.pick_but(names, required, |_, _| false),
            None => {
                let absent = [self.node.with(Value::ABSENT); MEMBERS_MAX];
                self.node.check_present(names, &absent[..required])?;
                Ok(absent)
            }
        }
    }
}

/// The place of a value in its document.
struct Way<'r, 'a>(Node<'r, 'a>);

impl fmt::Display for Way<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = self.0.document.bytes;
        let offset = self.0.offset_in(document);
        // It was parsed before, or the value would not exist.
        let mut at = json::parse(document).unwrap_or(Value::ABSENT);
        let mut separator = "";
        let is_way = |value: &Value<'_>| value.holds(self.0.value);
        // Ends: every turn goes down one level of JSON_DEPTH_MAX.
        while at.offset_in(document) != offset {
            let members = at.members().into_iter().flatten();
            let items = at.items().into_iter().flatten();
            if let Some((name, value)) = { members }.find(|(_, value)| is_way(value)) {
                write!(f, "{separator}{}", name.to_text::<NAME_BYTES>())?;
                at = value;
            } else if let Some((index, value)) = items.enumerate().find(|(_, item)| is_way(item)) {
                write!(f, "[{index}]")?;
                at = value;
            } else {
                break;
            }
            separator = ".";
        }
        if separator.is_empty() {
            return f.write_str("the document");
        }
        write!(f, " at byte {offset}")
    }
}

/// Words as a text shows them after "neither": "\"a\", \"b\" nor \"c\"".
struct Words<'a>(&'a str);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.split(' ').count() - 1;
        for (place, word) in self.0.split(' ').enumerate() {
            let separator = if place == 0 {
                ""
            } else if place < last {
                ", "
            } else {
                " nor "
            };
            write!(f, "{separator}\"{word}\"")?;
        }
        Ok(())
    }
}
