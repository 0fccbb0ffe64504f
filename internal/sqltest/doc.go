// Package sqltest gives tests a PostgreSQL or a MariaDB of their own: real servers on
// free ports of the loopback interface, with everything they keep in one temporary
// folder. A database service that runs on the machine is left alone.
//
// Both take a second or two to start, so that tests share one server of each kind in
// their process, and have a database of their own on it:
//
//	func TestSomething(t *testing.T) {
//		url := sqltest.Shared(t, sqltest.Postgres).NewDatabase(t)
//		// postgres://lockkeeper@127.0.0.1:PORT/t1?sslmode=disable
//	}
//
// A test that kills, stops or configures its server starts one for itself alone:
//
//	server := sqltest.Start(t, sqltest.MariaDB)
//	url := server.NewDatabase(t) // mariadb://lockkeeper:lockkeeper@127.0.0.1:PORT/t1
//	server.Kill()
//	err := server.Restart() // same port, same data
//
// [Run] is for programs that are no tests. A server ends with the process that started
// it, also when that is killed, and its folder is removed.
//
// It is for this repository only, and uses nothing but the standard library, so that
// the tests of the root module need no driver. It needs a Unix.
//
// The programs are found so:
//
//   - PostgreSQL: in the folder LOCKKEEPER_POSTGRES_BIN, else that of initdb in PATH,
//     else the newest /usr/lib/postgresql/*/bin.
//   - MariaDB: LOCKKEEPER_MARIADBD, else mariadbd or mysqld in PATH or /usr/sbin;
//     mariadb-install-db and mariadb beside it or in PATH.
//
// Without them a test is skipped, or fails where CI=true, so that no run there is
// green for having tested nothing.
package sqltest
