//! The service's methods from inherent ones.
//!
//! A future that holds plans or syntax trees takes the compiler seconds to prove `Send`, once for each place that asks. So
//! a type that offers [`SqlService`](super::service::SqlService) has `async` methods of the same names, and plain functions box their futures.

/// Implements the trait for a type by its own methods that are named; the trait's defaults stand for the others.
macro_rules! sql_service {
    ($type:ty: $($method:ident),+ $(,)?) => {
        impl $crate::frontend::service::SqlService for $type {
            $($crate::frontend::boxed::sql_service!(@$method $type);)+
        }
    };
    (@prepare $type:ty) => {
        fn prepare<'a>(
            &'a self,
            sql: &'a str,
            parameters: Option<&'a arrow::array::RecordBatch>,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<$crate::frontend::service::PreparedStatement>> {
            Box::pin(<$type>::prepare(self, sql, parameters))
        }
    };
    (@query $type:ty) => {
        fn query<'a>(
            &'a self,
            sql: &'a str,
            parameters: Option<arrow::array::RecordBatch>,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<$crate::frontend::service::QueryStream>> {
            Box::pin(<$type>::query(self, sql, parameters))
        }
    };
    (@update $type:ty) => {
        fn update<'a>(
            &'a self,
            sql: &'a str,
            parameters: Option<arrow::array::RecordBatch>,
            caller: &'a $crate::frontend::caller::Caller,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<i64>> {
            Box::pin(<$type>::update(self, sql, parameters, caller))
        }
    };
    (@update_many $type:ty) => {
        fn update_many<'a>(
            &'a self,
            sql: &'a str,
            parameters: arrow::array::RecordBatch,
            caller: &'a $crate::frontend::caller::Caller,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<i64>> {
            Box::pin(<$type>::update_many(self, sql, parameters, caller))
        }
    };
    (@ingest $type:ty) => {
        fn ingest<'a>(
            &'a self,
            ingest: $crate::frontend::service::Ingest,
            caller: &'a $crate::frontend::caller::Caller,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<i64>> {
            Box::pin(<$type>::ingest(self, ingest, caller))
        }
    };
    (@begin $type:ty) => {
        fn begin(&self) -> futures::future::BoxFuture<'_, ancho_common::error::Result<String>> {
            Box::pin(<$type>::begin(self))
        }
    };
    (@commit $type:ty) => {
        fn commit<'a>(
            &'a self,
            transaction: &'a str,
            caller: &'a $crate::frontend::caller::Caller,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<()>> {
            Box::pin(<$type>::commit(self, transaction, caller))
        }
    };
    (@roll_back $type:ty) => {
        fn roll_back<'a>(
            &'a self,
            transaction: &'a str,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<()>> {
            Box::pin(<$type>::roll_back(self, transaction))
        }
    };
    (@within $type:ty) => {
        fn within(&self, transaction: &str) -> ancho_common::error::Result<$crate::frontend::service::SharedService> {
            <$type>::within(self, transaction)
        }
    };
    (@catalog $type:ty) => {
        fn catalog(&self) -> ancho_common::error::Result<$crate::frontend::service::CatalogListing> {
            <$type>::catalog(self)
        }
    };
    (@action $type:ty) => {
        fn action<'a>(
            &'a self,
            name: &'a str,
            body: bytes::Bytes,
        ) -> futures::future::BoxFuture<'a, ancho_common::error::Result<bytes::Bytes>> {
            Box::pin(<$type>::action(self, name, body))
        }
    };
    (@ready $type:ty) => {
        fn ready(&self) -> $crate::frontend::service::Readiness {
            <$type>::ready(self)
        }
    };
}
pub(crate) use sql_service;
