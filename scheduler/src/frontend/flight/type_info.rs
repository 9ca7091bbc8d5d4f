//! SQL types that can be stored, as GetXdbcTypeInfo tells ODBC and JDBC drivers.
use std::sync::LazyLock;

use ancho_common::error::Result;
use arrow::array::RecordBatch;
use arrow_flight::sql::{
    CommandGetXdbcTypeInfo, Nullable, Searchable, XdbcDataType, XdbcDatetimeSubcode,
    metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder},
};

use super::metadata::metadata_error;

static TYPE_INFO: LazyLock<Result<XdbcTypeInfoData>> = LazyLock::new(|| {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, code, bits) in [
        ("TINYINT", XdbcDataType::XdbcTinyint, 8),
        ("SMALLINT", XdbcDataType::XdbcSmallint, 16),
        ("INTEGER", XdbcDataType::XdbcInteger, 32),
        ("BIGINT", XdbcDataType::XdbcBigint, 64),
        ("REAL", XdbcDataType::XdbcReal, 24),
        ("DOUBLE", XdbcDataType::XdbcDouble, 53),
    ] {
        types.append(XdbcTypeInfo {
            column_size: Some(bits),
            unsigned_attribute: Some(false),
            auto_increment: Some(false),
            num_prec_radix: Some(2),
            ..of(name, code)
        });
    }
    types.append(XdbcTypeInfo {
        column_size: Some(76),
        create_params: Some(vec!["precision".to_string(), "scale".to_string()]),
        unsigned_attribute: Some(false),
        auto_increment: Some(false),
        minimum_scale: Some(0),
        maximum_scale: Some(76),
        num_prec_radix: Some(10),
        ..of("DECIMAL", XdbcDataType::XdbcDecimal)
    });
    types.append(XdbcTypeInfo { column_size: Some(1), ..of("BOOLEAN", XdbcDataType::XdbcBit) });
    types.append(XdbcTypeInfo {
        column_size: Some(i32::MAX),
        case_sensitive: true,
        searchable: Searchable::Full,
        ..quoted("VARCHAR", XdbcDataType::XdbcVarchar, "'")
    });
    types.append(XdbcTypeInfo { column_size: Some(i32::MAX), ..quoted("BYTEA", XdbcDataType::XdbcVarbinary, "X'") });
    types.append(XdbcTypeInfo {
        column_size: Some(10),
        sql_data_type: XdbcDataType::XdbcDatetime,
        // The protocol gives DATE and YEAR one number, 1; only YEAR has a name here.
        datetime_subcode: Some(XdbcDatetimeSubcode::XdbcSubcodeYear),
        ..quoted("DATE", XdbcDataType::XdbcDate, "DATE '")
    });
    types.append(XdbcTypeInfo {
        column_size: Some(18),
        sql_data_type: XdbcDataType::XdbcDatetime,
        datetime_subcode: Some(XdbcDatetimeSubcode::XdbcSubcodeTime),
        maximum_scale: Some(9),
        ..quoted("TIME", XdbcDataType::XdbcTime, "TIME '")
    });
    types.append(XdbcTypeInfo {
        column_size: Some(29),
        sql_data_type: XdbcDataType::XdbcDatetime,
        datetime_subcode: Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
        maximum_scale: Some(9),
        ..quoted("TIMESTAMP", XdbcDataType::XdbcTimestamp, "TIMESTAMP '")
    });
    types.append(quoted("INTERVAL", XdbcDataType::XdbcInterval, "INTERVAL '"));
    types.build().map_err(metadata_error)
});

/// The types with the code asked for, or all, ordered by code.
pub(super) fn type_info(command: CommandGetXdbcTypeInfo) -> Result<RecordBatch> {
    let types = TYPE_INFO.as_ref().map_err(Clone::clone)?;
    command.into_builder(types).build().map_err(metadata_error)
}

fn of(name: &str, code: XdbcDataType) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.to_string(),
        local_type_name: Some(name.to_string()),
        data_type: code,
        sql_data_type: code,
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Basic,
        ..XdbcTypeInfo::default()
    }
}

fn quoted(name: &str, code: XdbcDataType, prefix: &str) -> XdbcTypeInfo {
    XdbcTypeInfo { literal_prefix: Some(prefix.to_string()), literal_suffix: Some("'".to_string()), ..of(name, code) }
}
