//! Derives TypeScript types of values from their serde calls.
//!
//! serde passes the name of each struct and field to the serializer, and indicates missing values.
//! The types therefore match the written JSON, regardless of attributes and hand-written
//! `Serialize`. A part that no recorded value shows is `unknown` or `null`, which the page's script
//! cannot use: then a value that shows it must be recorded too.

use indexmap::IndexMap;
use serde::ser::{self, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Types of all recorded values.
#[derive(Debug, Default)]
pub(super) struct TypeRecorder {
    structs: RefCell<BTreeMap<String, FieldTypes>>,
}

/// Type of a set of values.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueType {
    /// `boolean`, `number`, `string`, names of structs.
    names: BTreeSet<String>,
    is_null: bool,
    elements: Option<Box<ValueType>>,
    /// Value type of a map with varying keys.
    values: Option<Box<ValueType>>,
    /// Fields of a struct without a name, one with flattened fields.
    fields: Option<FieldTypes>,
}

/// Fields of a struct.
#[derive(Clone, Debug, Default)]
struct FieldTypes {
    recorded: usize,
    /// Field types by name, with the number of values that had the field.
    all: IndexMap<String, (ValueType, usize)>,
}

impl TypeRecorder {
    pub(super) fn record(&self, value: &impl Serialize) -> ValueType {
        value.serialize(self).expect("values that JSON can have")
    }

    /// Records a struct with flattened fields, whose name serde does not pass.
    pub(super) fn record_as(&self, name: &str, value: &impl Serialize) {
        let fields = self.record(value).fields.expect("a struct");
        self.add_struct(name, &fields);
    }

    /// Sets the type of a field that was written as JSON values.
    pub(super) fn set_field(&self, name: &str, field: &str, written: &str) {
        let mut structs = self.structs.borrow_mut();
        let fields = structs.get_mut(name).expect("a recorded struct");
        fields.all[field].0 = ValueType::named(written);
    }

    fn add_struct(&self, name: &str, fields: &FieldTypes) {
        let mut structs = self.structs.borrow_mut();
        structs.entry(name.to_owned()).or_default().merge(fields);
    }

    /// Returns type aliases instead of interfaces, which could not be used as records of any
    /// fields.
    pub(super) fn declarations(&self) -> String {
        let mut text = String::new();
        for (name, fields) in self.structs.borrow().iter() {
            let _ = write!(text, "\nexport type {name} = {};\n", fields.text(0));
        }
        text
    }
}

impl ValueType {
    fn named(name: &str) -> ValueType {
        ValueType {
            names: BTreeSet::from([name.to_owned()]),
            ..ValueType::default()
        }
    }

    fn null() -> ValueType {
        ValueType {
            is_null: true,
            ..ValueType::default()
        }
    }

    fn merge(&mut self, other: &ValueType) {
        self.names.extend(other.names.iter().cloned());
        self.is_null |= other.is_null;
        merge_type(&mut self.elements, other.elements.as_deref());
        merge_type(&mut self.values, other.values.as_deref());
        if let Some(fields) = &other.fields {
            let own = self.fields.get_or_insert_default();
            own.merge(fields);
        }
    }

    fn text(&self, depth: usize) -> String {
        let mut parts: Vec<String> = self.names.iter().cloned().collect();
        if let Some(elements) = &self.elements {
            let element = elements.text(depth);
            parts.push(if element.contains(" | ") && !element.starts_with('{') {
                format!("({element})[]")
            } else {
                format!("{element}[]")
            });
        }
        if let Some(values) = &self.values {
            parts.push(format!("{{ [key: string]: {} }}", values.text(depth)));
        }
        if let Some(fields) = &self.fields {
            parts.push(fields.text(depth));
        }
        if self.is_null {
            parts.push("null".to_owned());
        }
        if parts.is_empty() {
            parts.push("unknown".to_owned());
        }
        parts.join(" | ")
    }
}

fn merge_type(own: &mut Option<Box<ValueType>>, other: Option<&ValueType>) {
    if let Some(other) = other {
        own.get_or_insert_default().merge(other);
    }
}

impl FieldTypes {
    fn add(&mut self, name: &str, value: &ValueType) {
        let (field, times) = self.all.entry(name.to_owned()).or_default();
        field.merge(value);
        *times += 1;
    }

    fn merge(&mut self, other: &FieldTypes) {
        self.recorded += other.recorded;
        for (name, (value, times)) in &other.all {
            let (own, own_times) = self.all.entry(name.clone()).or_default();
            own.merge(value);
            *own_times += times;
        }
    }

    fn text(&self, depth: usize) -> String {
        let indent = "  ".repeat(depth + 1);
        let mut text = "{\n".to_owned();
        for (name, (value, times)) in &self.all {
            let mark = if *times < self.recorded { "?" } else { "" };
            let mut written = value.text(depth + 1);
            // Fields of times that are 0 in all values are not written.
            if written == "unknown" && name.ends_with("_ns") {
                "number".clone_into(&mut written);
            }
            let _ = writeln!(text, "{indent}{name}{mark}: {written};");
        }
        text + &"  ".repeat(depth) + "}"
    }
}

/// A sequence, map or struct whose parts are being recorded.
pub(super) struct PartRecorder<'r> {
    recorder: &'r TypeRecorder,
    /// Name of the struct; `None` for other values.
    name: Option<&'static str>,
    key: String,
    whole: ValueType,
    fields: FieldTypes,
}

impl<'r> PartRecorder<'r> {
    fn new(recorder: &'r TypeRecorder, name: Option<&'static str>) -> Self {
        PartRecorder {
            recorder,
            name,
            key: String::new(),
            whole: ValueType::default(),
            fields: FieldTypes {
                recorded: 1,
                ..FieldTypes::default()
            },
        }
    }

    fn add_element(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), serde_json::Error> {
        let element = value.serialize(self.recorder)?;
        merge_type(&mut self.whole.elements, Some(&element));
        Ok(())
    }

    fn add_field(
        &mut self,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), serde_json::Error> {
        let field = value.serialize(self.recorder)?;
        self.fields.add(name, &field);
        Ok(())
    }

    fn end_struct(self) -> ValueType {
        match self.name {
            Some(name) => {
                self.recorder.add_struct(name, &self.fields);
                ValueType::named(name)
            }
            None => ValueType {
                fields: Some(self.fields),
                ..self.whole
            },
        }
    }
}

type Recorded = Result<ValueType, serde_json::Error>;

macro_rules! scalars {
    ($name:literal: $($method:ident($type:ty),)*) => {
        $(fn $method(self, _: $type) -> Recorded {
            Ok(ValueType::named($name))
        })*
    };
}

impl<'r> ser::Serializer for &'r TypeRecorder {
    type Ok = ValueType;
    type Error = serde_json::Error;
    type SerializeSeq = PartRecorder<'r>;
    type SerializeTuple = PartRecorder<'r>;
    type SerializeTupleStruct = ser::Impossible<ValueType, serde_json::Error>;
    type SerializeTupleVariant = ser::Impossible<ValueType, serde_json::Error>;
    type SerializeMap = PartRecorder<'r>;
    type SerializeStruct = PartRecorder<'r>;
    type SerializeStructVariant = ser::Impossible<ValueType, serde_json::Error>;

    scalars! { "boolean": serialize_bool(bool), }
    scalars! { "number":
        serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
    }
    scalars! { "string": serialize_char(char), serialize_str(&str), }

    fn serialize_f32(self, value: f32) -> Recorded {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Recorded {
        let mut number = ValueType::named("number");
        // JSON has no NaN: serde_json writes null
        number.is_null = !value.is_finite();
        Ok(number)
    }

    fn serialize_bytes(self, _: &[u8]) -> Recorded {
        Err(ser::Error::custom("bytes are no JSON"))
    }

    fn serialize_none(self) -> Recorded {
        Ok(ValueType::null())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Recorded {
        let mut some = value.serialize(self)?;
        some.is_null = true;
        Ok(some)
    }

    fn serialize_unit(self) -> Recorded {
        Ok(ValueType::null())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Recorded {
        Ok(ValueType::null())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Recorded {
        Ok(ValueType::named("string"))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Recorded {
        value.serialize(self)
    }

    /// Records an object of one field, named like the variant.
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Recorded {
        Ok(ValueType {
            values: Some(Box::new(value.serialize(self)?)),
            ..ValueType::default()
        })
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Self::Error> {
        let mut part = PartRecorder::new(self, None);
        part.whole.elements = Some(Box::default());
        Ok(part)
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, Self::Error> {
        self.serialize_seq(Some(length))
    }

    // none of the page's types is one: a list does not show the meaning of its positions
    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Self::Error> {
        Err(ser::Error::custom(format!("{name} has no names of fields")))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Self::Error> {
        Err(ser::Error::custom(format!(
            "{name} has variants with values"
        )))
    }

    /// Maps state their length. A struct with flattened fields is a map that does not.
    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, Self::Error> {
        let mut part = PartRecorder::new(self, None);
        part.whole.values = length.map(|_| Box::default());
        Ok(part)
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStruct, Self::Error> {
        Ok(PartRecorder::new(self, Some(name)))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Self::Error> {
        Err(ser::Error::custom(format!(
            "{name} has variants with values"
        )))
    }
}

impl ser::SerializeSeq for PartRecorder<'_> {
    type Ok = ValueType;
    type Error = serde_json::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
        self.add_element(value)
    }

    fn end(self) -> Recorded {
        Ok(self.whole)
    }
}

impl ser::SerializeTuple for PartRecorder<'_> {
    type Ok = ValueType;
    type Error = serde_json::Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
        self.add_element(value)
    }

    fn end(self) -> Recorded {
        Ok(self.whole)
    }
}

impl ser::SerializeMap for PartRecorder<'_> {
    type Ok = ValueType;
    type Error = serde_json::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Self::Error> {
        // keys are strings or numbers, which JSON writes as strings
        let key = serde_json::to_value(key)?;
        self.key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
        if self.whole.values.is_some() {
            let value = value.serialize(self.recorder)?;
            merge_type(&mut self.whole.values, Some(&value));
            return Ok(());
        }
        let key = std::mem::take(&mut self.key);
        self.add_field(&key, value)
    }

    fn end(self) -> Recorded {
        Ok(if self.whole.values.is_some() {
            self.whole
        } else {
            self.end_struct()
        })
    }
}

impl ser::SerializeStruct for PartRecorder<'_> {
    type Ok = ValueType;
    type Error = serde_json::Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Self::Error> {
        self.add_field(name, value)
    }

    /// Keeps the position of the field among the others.
    fn skip_field(&mut self, name: &'static str) -> Result<(), Self::Error> {
        self.fields.all.entry(name.to_owned()).or_default();
        Ok(())
    }

    fn end(self) -> Recorded {
        Ok(self.end_struct())
    }
}

#[derive(serde::Serialize)]
struct Named {
    number: u32,
    maybe: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rarely: Option<f64>,
    list: Vec<Option<bool>>,
    by_key: BTreeMap<i64, u64>,
}

#[derive(serde::Serialize)]
struct Flattened {
    own: i64,
    #[serde(flatten)]
    inner: Named,
}

#[test]
fn types_are_those_of_all_recorded_values() {
    let named = |rarely, maybe| Named {
        number: 1,
        maybe,
        rarely,
        list: vec![Some(true), None],
        by_key: BTreeMap::from([(1, 2)]),
    };
    let recorder = TypeRecorder::default();
    recorder.record(&named(None, None));
    recorder.record(&named(Some(0.5), None));
    let inner = named(None, Some("text"));
    recorder.record_as("Flattened", &Flattened { own: 1, inner });
    assert_eq!(
        recorder.declarations(),
        "
export type Flattened = {
  own: number;
  number: number;
  maybe: string | null;
  list: (boolean | null)[];
  by_key: { [key: string]: number };
};

export type Named = {
  number: number;
  maybe: null;
  rarely?: number | null;
  list: (boolean | null)[];
  by_key: { [key: string]: number };
};
"
    );
}
