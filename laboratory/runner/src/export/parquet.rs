//! Tables as Apache Parquet: one row group, optional columns, no compression.

use super::{Column, Table};
use parquet::basic::{LogicalType, Repetition, Type};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types;
use std::sync::Arc;

/// Name of the schema.
const SCHEMA: &str = "runs";

pub fn write(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let fields: Result<Vec<_>, ParquetError> =
        table.columns.iter().map(|(name, column)| Ok(Arc::new(field(name, column)?))).collect();
    let schema = Arc::new(types::Type::group_type_builder(SCHEMA).with_fields(fields?).build()?);
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::builder().build()))?;
    let mut group = file.next_row_group()?;
    for (name, column) in &table.columns {
        let mut writer =
            group.next_column()?.ok_or_else(|| ParquetError::General(format!("the schema lacks the column {name}")))?;
        fill(&mut writer, column)?;
        writer.close()?;
    }
    group.close()?;
    file.into_inner()
}

fn field(name: &str, column: &Column) -> Result<types::Type, ParquetError> {
    let (physical, logical) = match column {
        Column::Text(_) => (Type::BYTE_ARRAY, Some(LogicalType::String)),
        Column::Number(_) => (Type::DOUBLE, None),
        Column::Whole(_) => (Type::INT64, None),
        Column::Flag(_) => (Type::BOOLEAN, None),
    };
    let builder = types::Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    builder.with_logical_type(logical).build()
}

fn fill(writer: &mut SerializedColumnWriter<'_>, column: &Column) -> Result<(), ParquetError> {
    match column {
        Column::Text(values) => {
            put::<ByteArrayType, _>(writer, values, |text: &String| ByteArray::from(text.as_bytes().to_vec()))
        }
        Column::Number(values) => put::<DoubleType, _>(writer, values, |number| *number),
        Column::Whole(values) => put::<Int64Type, _>(writer, values, |number| *number),
        Column::Flag(values) => put::<BoolType, _>(writer, values, |flag| *flag),
    }
}

/// Writes the present values, and for each line whether it has a value.
fn put<D: DataType, T>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[Option<T>],
    convert: impl Fn(&T) -> D::T,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<D::T> = values.iter().flatten().map(convert).collect();
    writer.typed::<D>().write_batch(&there, Some(&levels), None)?;
    Ok(())
}
