//! What the server is and can do, as GetSqlInfo tells it.
use std::sync::LazyLock;

use ancho_common::error::Result;
use arrow::array::RecordBatch;
use arrow_flight::sql::{
    CommandGetSqlInfo, SqlInfo, SqlNullOrdering, SqlOuterJoinsSupportLevel, SqlSupportedCaseSensitivity,
    SqlSupportedGroupBy, SqlSupportedResultSetType, SqlSupportedSubqueries, SqlSupportedTransaction,
    SqlSupportedUnions, SqlTransactionIsolationLevel, SupportedSqlGrammar,
    metadata::{SqlInfoData, SqlInfoDataBuilder},
};

use super::metadata::metadata_error;

/// Snapshot isolation is more than this level of the standard, and less than the next one.
const ISOLATION: SqlTransactionIsolationLevel = SqlTransactionIsolationLevel::SqlTransactionRepeatableRead;

static SQL_INFO: LazyLock<Result<SqlInfoData>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    server(&mut info);
    names(&mut info);
    language(&mut info);
    limits_and_transactions(&mut info);
    info.build().map_err(metadata_error)
});

/// The infos asked for, ordered by number; all if none is named. Unknown numbers are left out.
pub(super) fn sql_info(command: CommandGetSqlInfo) -> Result<RecordBatch> {
    let info = SQL_INFO.as_ref().map_err(Clone::clone)?;
    command.into_builder(info).build().map_err(metadata_error)
}

fn server(info: &mut SqlInfoDataBuilder) {
    info.append(SqlInfo::FlightSqlServerName, "Ancho");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, arrow::ARROW_VERSION);
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Transaction as i32);
    info.append(SqlInfo::FlightSqlServerCancel, false);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    info.append(SqlInfo::FlightSqlServerStatementTimeout, 0);
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
}

fn names(info: &mut SqlInfoDataBuilder) {
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, true);
    info.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlQuotedIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32);
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlExtraNameCharacters, "");
    info.append(SqlInfo::SqlSchemaTerm, "schema");
    info.append(SqlInfo::SqlCatalogTerm, "catalog");
    info.append(SqlInfo::SqlCatalogAtStart, true);
}

fn language(info: &mut SqlInfoDataBuilder) {
    // NULL comes last ascending and first descending, as if it were the highest value.
    info.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    info.append(SqlInfo::SqlKeywords, KEYWORDS);
    info.append(SqlInfo::SqlNumericFunctions, NUMERIC_FUNCTIONS);
    info.append(SqlInfo::SqlStringFunctions, STRING_FUNCTIONS);
    info.append(SqlInfo::SqlSystemFunctions, &["arrow_typeof", "version"][..]);
    info.append(SqlInfo::SqlDatetimeFunctions, DATETIME_FUNCTIONS);
    info.append(SqlInfo::SqlSupportsColumnAliasing, true);
    info.append(SqlInfo::SqlNullPlusNullIsNull, true);
    info.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    info.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
    info.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    info.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    info.append(
        SqlInfo::SqlSupportedGroupBy,
        bits(&[SqlSupportedGroupBy::SqlGroupByUnrelated as i32, SqlSupportedGroupBy::SqlGroupByBeyondSelect as i32]),
    );
    info.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    info.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    info.append(
        SqlInfo::SqlSupportedGrammar,
        bits(&[SupportedSqlGrammar::SqlMinimumGrammar as i32, SupportedSqlGrammar::SqlCoreGrammar as i32]),
    );
    info.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, false);
    info.append(SqlInfo::SqlOuterJoinsSupportLevel, bits(&[SqlOuterJoinsSupportLevel::SqlFullOuterJoins as i32]));
    info.append(SqlInfo::SqlSelectForUpdateSupported, false);
    info.append(SqlInfo::SqlStoredProceduresSupported, false);
    info.append(
        SqlInfo::SqlSupportedSubqueries,
        bits(&[
            SqlSupportedSubqueries::SqlSubqueriesInComparisons as i32,
            SqlSupportedSubqueries::SqlSubqueriesInExists as i32,
            SqlSupportedSubqueries::SqlSubqueriesInIns as i32,
        ]),
    );
    info.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    info.append(
        SqlInfo::SqlSupportedUnions,
        bits(&[SqlSupportedUnions::SqlUnion as i32, SqlSupportedUnions::SqlUnionAll as i32]),
    );
}

fn limits_and_transactions(info: &mut SqlInfoDataBuilder) {
    // 0: no limit of its own.
    for limit in [
        SqlInfo::SqlMaxColumnsInGroupBy,
        SqlInfo::SqlMaxColumnsInOrderBy,
        SqlInfo::SqlMaxColumnsInSelect,
        SqlInfo::SqlMaxColumnsInTable,
        SqlInfo::SqlMaxConnections,
        SqlInfo::SqlMaxStatementLength,
        SqlInfo::SqlMaxStatements,
        SqlInfo::SqlMaxTablesInSelect,
    ] {
        info.append(limit, 0_i64);
    }
    info.append(SqlInfo::SqlDefaultTransactionIsolation, ISOLATION as i32);
    info.append(SqlInfo::SqlTransactionsSupported, true);
    info.append(SqlInfo::SqlSupportedTransactionsIsolationLevels, bits(&[ISOLATION as i32]));
    info.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, true);
    info.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
    info.append(
        SqlInfo::SqlSupportedResultSetTypes,
        bits(&[SqlSupportedResultSetType::SqlResultSetTypeForwardOnly as i32]),
    );
    info.append(SqlInfo::SqlBatchUpdatesSupported, true);
    info.append(SqlInfo::SqlSavepointsSupported, false);
    info.append(SqlInfo::SqlNamedParametersSupported, false);
    info.append(SqlInfo::SqlLocatorsUpdateCopy, false);
    info.append(SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false);
}

/// The protocol's enumerations number the bits of a mask.
fn bits(positions: &[i32]) -> i32 {
    positions.iter().fold(0, |mask, position| mask | 1 << position)
}

/// Words beyond SQL:2003's that the parser reserves.
const KEYWORDS: &[&str] = &["ANTI", "EXPLAIN", "ILIKE", "LIMIT", "OFFSET", "PARTITION", "QUALIFY", "RLIKE", "SEMI"];

#[rustfmt::skip]
const NUMERIC_FUNCTIONS: &[&str] = &[
    "abs", "acos", "asin", "atan", "atan2", "cbrt", "ceil", "cos", "cot", "degrees", "exp", "factorial", "floor", "gcd",
    "lcm", "ln", "log", "log10", "log2", "pi", "power", "radians", "random", "round", "signum", "sin", "sqrt", "tan", "trunc",
];

#[rustfmt::skip]
const STRING_FUNCTIONS: &[&str] = &[
    "ascii", "bit_length", "btrim", "character_length", "chr", "concat", "concat_ws", "contains", "ends_with", "initcap",
    "left", "length", "levenshtein", "lower", "lpad", "ltrim", "md5", "octet_length", "regexp_like", "regexp_match",
    "regexp_replace", "repeat", "replace", "reverse", "right", "rpad", "rtrim", "split_part", "starts_with", "strpos",
    "substr", "to_hex", "translate", "trim", "upper",
];

#[rustfmt::skip]
const DATETIME_FUNCTIONS: &[&str] = &[
    "current_date", "current_time", "current_timestamp", "date_bin", "date_part", "date_trunc", "from_unixtime", "make_date",
    "now", "to_char", "to_date", "to_timestamp", "to_unixtime",
];
