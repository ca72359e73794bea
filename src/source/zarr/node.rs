//! What the values of one document mean, and errors that name the way to a value.
//!
//! Comes in: values of a checked document. Goes out: what they mean, or a status whose text is
//! "FILE: codecs[0].configuration.level at byte 812: REASON". Invariant: a missing or ill-typed
//! member is DECODE, a member or value that is not known is UNSUPPORTED.
//!
//! Lists of names are one text with a space between two names. Only who refuses a value needs the
//! way to it, so nothing is noted on the way down: it is looked for again in the document.

use crate::base::limits::RANK_MAX;
use crate::base::status::{Status, Why};
use crate::base::text::Tail;
use crate::fail;
use crate::source::json::{self, Error, Fault, Items, Kind, Members, Str, Value};
use arrayvec::ArrayVec;
use core::fmt;

/// Bytes of the uri that a text shows; the rest of the text is for the reason.
const SHOWN_URI_BYTES: usize = 160;

/// Longest member that is read; names are of ours, so a way shows them whole.
const NAME_BYTES: usize = 32;

/// A member of an object.
pub(super) type Member<'a> = (Str<'a>, Value<'a>);

/// Most members that are taken out of one object.
const MEMBERS_MAX: usize = 9;

/// Members in the order in which they were asked for; those that are not there are ABSENT.
pub(super) type Picked<'a> = [Value<'a>; MEMBERS_MAX];

/// What a walk over an object finds.
pub(super) struct Walked<'a> {
    pub members: Picked<'a>,
    /// The first member that was not asked for and is not passed over.
    pub other: Option<Member<'a>>,
}

/// An extension point's value: a name and what configures it.
pub(super) struct Extension<'a> {
    /// The value as a whole, for texts.
    pub value: Value<'a>,
    pub name: Str<'a>,
    /// None where the document has no configuration.
    pub configuration: Option<Value<'a>>,
    /// Whether the name stands among the parameters, as "id".
    pub has_id: bool,
}

/// One extent per axis.
pub(super) type Extents = ArrayVec<u64, RANK_MAX>;

/// The name of a document as texts show it.
#[derive(Clone, Copy)]
struct File<'w> {
    uri: &'w str,
    name: &'static str,
}

impl fmt::Display for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Tail(self.uri, SHOWN_URI_BYTES), self.name)
    }
}

/// Where a value stands in its document.
struct Way<'a> {
    document: &'a [u8],
    root: Value<'a>,
    value: Value<'a>,
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.value.offset_in(self.document);
        let mut at = self.root;
        let mut separator = "";
        // Ends: every turn goes down one level, of which there are JSON_DEPTH_MAX.
        while at.offset_in(self.document) != offset {
            let is_way = |value: &Value<'_>| value.holds(self.value);
            if let Some(mut members) = at.members()
                && let Some((name, value)) = members.find(|(_, value)| is_way(value))
            {
                write!(f, "{separator}{}", name.to_text::<NAME_BYTES>())?;
                at = value;
            } else if let Some(items) = at.items()
                && let Some((index, value)) = items.enumerate().find(|(_, value)| is_way(value))
            {
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

/// A document that is not JSON.
fn malformed(file: File<'_>, error: Error, why: &mut Why) -> Status {
    match error.fault {
        Fault::Depth => fail!(why, Unsupported, "{file}: {error}, move attributes out of it"),
        _ => fail!(why, Decode, "{file}: {error}"),
    }
}

/// There is no array at `uri`.
pub(super) fn not_found(uri: &str, name: &'static str, reason: &str, why: &mut Why) -> Status {
    fail!(why, NotFound, "{}: {reason}", File { uri, name })
}

/// Reads one document and fills the text when something is wrong.
pub(super) struct Reader<'w> {
    file: File<'w>,
    document: &'w [u8],
    root: Value<'w>,
    why: &'w mut Why,
}

impl<'w> Reader<'w> {
    /// A reader of the document `name` of the array or group at `uri`, and the value that the
    /// document is.
    pub fn open<'a: 'w>(
        uri: &'w str,
        name: &'static str,
        document: &'a [u8],
        why: &'w mut Why,
    ) -> Result<(Self, Value<'a>), Status> {
        let file = File { uri, name };
        match json::parse(document) {
            Ok(root) => Ok((Reader { file, document, root, why }, root)),
            Err(error) => Err(malformed(file, error, why)),
        }
    }

    /// `value` is not what the format says.
    pub fn decode(&mut self, value: Value<'_>, reason: fmt::Arguments<'_>) -> Status {
        self.refuse(Status::Decode, value, reason)
    }

    /// `value` is something that is not read.
    pub fn unsupported(&mut self, value: Value<'_>, reason: fmt::Arguments<'_>) -> Status {
        self.refuse(Status::Unsupported, value, reason)
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, status: Status, value: Value<'_>, reason: fmt::Arguments<'_>) -> Status {
        let way = Way { document: self.document, root: self.root, value };
        self.why.fail(status, format_args!("{}: {way}: {reason}", self.file))
    }

    /// There is no array at the uri.
    pub fn not_found(&mut self, reason: &str) -> Status {
        not_found(self.file.uri, self.file.name, reason, self.why)
    }

    /// `value` names something that is not read: "WHAT "name" is not read, only KNOWN".
    #[cold]
    #[inline(never)]
    pub fn unknown(&mut self, value: Value<'_>, what: &str, name: Str<'_>, known: &str) -> Status {
        self.unsupported(value, format_args!("{what} {name} is not read, only {known}"))
    }

    /// `value` names a type of texts, or of other things that have no fixed size.
    #[cold]
    pub fn no_numbers(&mut self, value: Value<'_>, name: Str<'_>) -> Status {
        let way = "write numbers, such as the places of its words in a list";
        self.unsupported(
            value,
            format_args!("data type {name} is text or objects, not read: {way}"),
        )
    }

    /// `value` has more of something than is read.
    #[cold]
    #[inline(never)]
    pub fn too_many(&mut self, value: Value<'_>, most: usize, what: &str) -> Status {
        self.unsupported(value, format_args!("more than {most} {what} are not read"))
    }

    /// `value` has another type than `expected`.
    #[cold]
    #[inline(never)]
    fn ill_typed(&mut self, value: Value<'_>, expected: &str) -> Status {
        let kind = value.kind().name();
        match value.kind() {
            Kind::Array | Kind::Object => {
                self.decode(value, format_args!("{kind}, not {expected}"))
            }
            _ => self.decode(value, format_args!("{value}, not {expected}")),
        }
    }

    /// The members of an object.
    pub fn members<'a>(&mut self, value: Value<'a>) -> Result<Members<'a>, Status> {
        value.members().ok_or_else(|| self.ill_typed(value, "an object"))
    }

    /// The members `names` of an object, of which the first `required` must be there. Others are
    /// passed over.
    pub fn pick<'a>(
        &mut self,
        value: Value<'a>,
        names: &str,
        required: usize,
    ) -> Result<Picked<'a>, Status> {
        self.pick_but(value, names, required, |_, _| true)
    }

    /// The members `names` of an object that has no others, of which the first `required` must be
    /// there.
    pub fn pick_all<'a>(
        &mut self,
        value: Value<'a>,
        names: &str,
        required: usize,
    ) -> Result<Picked<'a>, Status> {
        self.pick_but(value, names, required, |_, _| false)
    }

    /// The members `names` of an extension's configuration, of which the first `required` must be
    /// there.
    pub fn configuration<'a>(
        &mut self,
        extension: &Extension<'a>,
        names: &str,
        required: usize,
    ) -> Result<Picked<'a>, Status> {
        let Some(value) = extension.configuration else {
            let members = [Value::ABSENT; MEMBERS_MAX];
            self.check_present(extension.value, names, &members[..required])?;
            return Ok(members);
        };
        match extension.has_id {
            true => self.pick_but(value, names, required, |name, _| name == *"id"),
            false => self.pick_all(value, names, required),
        }
    }

    fn pick_but<'a>(
        &mut self,
        value: Value<'a>,
        names: &str,
        required: usize,
        is_passed_over: fn(Str<'_>, Value<'_>) -> bool,
    ) -> Result<Picked<'a>, Status> {
        let Walked { members, other } = self.walk(value, names, is_passed_over)?;
        if let Some((name, member)) = other {
            let reason = format_args!("member {name} = {member} is not known");
            return Err(self.unsupported(value, reason));
        }
        self.check_present(value, names, &members[..required])?;
        Ok(members)
    }

    /// Whether all of these members, the first of `names`, are there.
    pub fn check_present(
        &mut self,
        parent: Value<'_>,
        names: &str,
        members: &[Value<'_>],
    ) -> Result<(), Status> {
        match members.iter().position(|member| member.found().is_none()) {
            None => Ok(()),
            Some(place) => Err(self.missing(parent, names.split(' ').nth(place).unwrap_or(""))),
        }
    }

    /// Takes the members `names` of an object in one pass. A name that comes twice is an error,
    /// because two readers would see two documents.
    pub fn walk<'a>(
        &mut self,
        value: Value<'a>,
        names: &str,
        is_passed_over: fn(Str<'_>, Value<'_>) -> bool,
    ) -> Result<Walked<'a>, Status> {
        let mut walked = Walked { members: [Value::ABSENT; MEMBERS_MAX], other: None };
        for (name, member) in self.members(value)? {
            let Some(place) = name.place_in(names) else {
                if walked.other.is_none() && !is_passed_over(name, member) {
                    walked.other = Some((name, member));
                }
                continue;
            };
            if walked.members[place].found().is_some() {
                let (file, offset) = (self.file, member.offset_in(self.document));
                let reason = "a member that comes twice";
                return Err(fail!(self.why, Decode, "{file}: {reason} at byte {offset}"));
            }
            walked.members[place] = member;
        }
        Ok(walked)
    }

    #[cold]
    fn missing(&mut self, parent: Value<'_>, name: &str) -> Status {
        self.decode(parent, format_args!("member \"{name}\" is missing"))
    }

    /// A member that must be there.
    pub fn required<'a>(
        &mut self,
        parent: Value<'_>,
        name: &str,
        member: Value<'a>,
    ) -> Result<Value<'a>, Status> {
        member.found().ok_or_else(|| self.missing(parent, name))
    }

    /// Whether the format is the one that is read under this name.
    pub fn check_format(
        &mut self,
        root: Value<'_>,
        format: Value<'_>,
        expected: i64,
    ) -> Result<(), Status> {
        let format = self.required(root, "zarr_format", format)?;
        let version = self.integer(format, i64::MIN, i64::MAX)?;
        if version != expected {
            let reason = format_args!("{version} is not read under this name, only {expected}");
            return Err(self.unsupported(format, reason));
        }
        Ok(())
    }

    /// A string.
    pub fn string<'a>(&mut self, value: Value<'a>) -> Result<Str<'a>, Status> {
        value.as_str().ok_or_else(|| self.ill_typed(value, "a string"))
    }

    /// The place of a string among `words`; `refusal` is the status of any other.
    pub fn choice(
        &mut self,
        value: Value<'_>,
        words: &str,
        refusal: Status,
    ) -> Result<usize, Status> {
        let name = self.string(value)?;
        name.place_in(words).ok_or_else(|| {
            self.refuse(refusal, value, format_args!("{name} is neither {}", Words(words)))
        })
    }

    /// A boolean.
    pub fn boolean(&mut self, value: Value<'_>) -> Result<bool, Status> {
        value.as_bool().ok_or_else(|| self.ill_typed(value, "a boolean"))
    }

    /// A whole number of `first..=last`.
    pub fn integer(&mut self, value: Value<'_>, first: i64, last: i64) -> Result<i64, Status> {
        if !value.is_integer() {
            return Err(self.ill_typed(value, "a whole number"));
        }
        match value.as_i64() {
            Some(number) if (first..=last).contains(&number) => Ok(number),
            _ => Err(self.decode(value, format_args!("{value} is outside of {first} to {last}"))),
        }
    }

    /// Checks a number of `first..=last` that may be absent.
    pub fn check_integer(&mut self, value: Value<'_>, first: i64, last: i64) -> Result<(), Status> {
        match value.found() {
            Some(value) => self.integer(value, first, last).map(|_| ()),
            None => Ok(()),
        }
    }

    /// A number that is finite.
    pub fn number(&mut self, value: Value<'_>) -> Result<f64, Status> {
        match value.as_f64() {
            Some(number) if number.is_finite() => Ok(number),
            Some(_) => Err(self.decode(value, format_args!("{value} is not finite in f64"))),
            None => Err(self.ill_typed(value, "a number")),
        }
    }

    /// One number per axis, each at least `least`.
    pub fn extents(&mut self, value: Value<'_>, least: i64) -> Result<Extents, Status> {
        let mut extents = Extents::new();
        for item in self.items(value)? {
            if extents.is_full() {
                return Err(self.too_many(value, RANK_MAX, "axes"));
            }
            extents.push(self.extent(item, least)?);
        }
        Ok(extents)
    }

    /// A number of elements, at least `least`.
    pub fn extent(&mut self, value: Value<'_>, least: i64) -> Result<u64, Status> {
        if !value.is_integer() {
            return Err(self.ill_typed(value, "a whole number"));
        }
        match value.as_i64() {
            Some(extent) if extent >= least => Ok(extent as u64),
            // Past i64 a number keeps its sign.
            None if !value.source().starts_with('-') => {
                let reason = format_args!("{value} is beyond the largest extent, 2^63 - 1");
                Err(self.unsupported(value, reason))
            }
            _ => Err(self.decode(value, format_args!("{value}, but at least {least} is needed"))),
        }
    }

    /// The items of an array.
    pub fn items<'a>(&mut self, value: Value<'a>) -> Result<Items<'a>, Status> {
        value.items().ok_or_else(|| self.ill_typed(value, "an array"))
    }

    /// A name alone, or an object of a name and a configuration.
    pub fn extension<'a>(&mut self, value: Value<'a>) -> Result<Extension<'a>, Status> {
        if let Some(name) = value.as_str() {
            return Ok(Extension { value, name, configuration: None, has_id: false });
        }
        if value.kind() != Kind::Object {
            return Err(self.ill_typed(value, "a name or an object with a name"));
        }
        let [name, configuration, must_understand, ..] =
            self.pick_all(value, "name configuration must_understand", 1)?;
        let name = self.string(name)?;
        let configuration = configuration.found();
        if let Some(configuration) = configuration {
            self.members(configuration)?;
        }
        // Whatever it says: what is named here is either understood or refused.
        if let Some(must_understand) = must_understand.found() {
            self.boolean(must_understand)?;
        }
        Ok(Extension { value, name, configuration, has_id: false })
    }
}

/// Words as a text shows them behind "neither": "\"a\", \"b\" nor \"c\"".
struct Words<'a>(&'a str);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        // Ends: every turn takes a word.
        while let Some((word, behind)) = rest.split_once(' ') {
            rest = behind;
            let is_last = !rest.as_bytes().contains(&b' ');
            write!(f, "\"{word}\"{}", if is_last { " nor " } else { ", " })?;
        }
        write!(f, "\"{rest}\"")
    }
}
