module dm-tests/tidb

go 1.25.5

require (
	github.com/pingcap/tidb v1.1.0-beta.0.20250925123346-8ea80e6b2b42
	github.com/pingcap/tidb/pkg/parser v0.0.0-20250925154222-93731f04705d
)

replace (
	github.com/go-ldap/ldap/v3 => github.com/YangKeao/ldap/v3 v3.4.5-0.20230421065457-369a3bab1117
	sourcegraph.com/sourcegraph/appdash => github.com/sourcegraph/appdash v0.0.0-20190731080439-ebfcffb1b5c0
	sourcegraph.com/sourcegraph/appdash-data => github.com/sourcegraph/appdash-data v0.0.0-20151005221446-73f23eafcf67
)
