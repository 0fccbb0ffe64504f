package dialect

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
)

// A Class is what an error means for the batch that met it.
type Class int

// The classes. Transient is also what is not known: to try again does no harm, and
// shows itself as a batch that does not get older.
const (
	Transient    Class = iota // the same batch may succeed later
	BadRow                    // a row is refused for what it holds: find it, and park it
	BadReference              // a row refers to one that is not there yet, or is still referred to
	BadSchema                 // rows of this table fail until somebody changes the database
)

// String returns the name.
func (c Class) String() string {
	switch c {
	case BadRow:
		return "bad row"
	case BadReference:
		return "bad reference"
	case BadSchema:
		return "bad schema"
	}
	return "transient"
}

// Classify says what an error of a transaction means. The code of an error is its
// SQLSTATE, its MySQL number or its SQLite primary code, as text, and "" if it has none.
func (db *DB) Classify(err error, code func(error) string) Class {
	if errors.Is(err, errValue) {
		return BadRow
	}
	c := code(err)
	if c == "" {
		return classifyCodeless(err)
	}
	return db.server.classify(err, c)
}

// Marks of errors that a driver makes itself, because it can't send an argument. Sent
// again they fail again, so they must not pass for errors of the network.
var unsendable = []string{
	"failed to encode args[",        // pgx
	"packet for query is too large", // go-sql-driver/mysql: the value is larger than max_allowed_packet
	"sqlite: invalid driver.Value",  // modernc.org/sqlite
	"sql: converting argument",      // database/sql
}

func classifyCodeless(err error) Class {
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		return Transient
	}
	text := err.Error()
	if slices.ContainsFunc(unsendable, func(mark string) bool { return strings.Contains(text, mark) }) {
		return BadRow
	}
	return Transient
}

// classify goes by the class of a SQLSTATE, and by the whole of it where that differs.
func (postgres) classify(err error, state string) Class {
	switch state {
	case "0A000": // feature_not_supported, also for a cached plan of a table that was altered: its driver forgets it
		if strings.Contains(err.Error(), "cached plan") {
			return Transient
		}
	case "23503", // foreign_key_violation
		"23001": // restrict_violation
		return BadReference
	case "54000": // program_limit_exceeded: a key that is too long for its index
		return BadRow
	case "55000": // object_not_in_prerequisite_state: as a table without a replica identity
		return BadSchema
	}
	if len(state) != 5 {
		return Transient
	}
	switch state[:2] {
	case "22", "23", // data exception, integrity constraint violation
		"21",       // cardinality violation: rows of one batch that the database takes for the same
		"27", "44", // triggered data change violation, WITH CHECK OPTION violation
		"P0": // an exception that a trigger raises
		return BadRow
	case "42", "28", "3D", "3F", // syntax or access rule, authorization, no such database, no such schema
		"0A", "2F", "38", "39", "54": // not supported, errors of functions, limits of the program
		return BadSchema
	}
	return Transient
}

// classify takes what is not listed for Transient. Not listed on purpose are 1290 and
// 1836, a server that is read-only: a failover is going on.
func (mysql) classify(err error, number string) Class {
	switch number {
	case "1105": // "unknown error", with which MariaDB refuses a value of a prepared statement
		if strings.Contains(err.Error(), "max_allowed_packet") {
			return BadRow
		}
		return Transient
	case "1216", "1217", "1451", "1452": // foreign keys, in both directions
		return BadReference
	case "1048", "1263", // NULL
		"1022", "1062", "1169", "1586", "1761", "1762", // a duplicate
		"1264", "1265", "1292", "1366", "1367", "1406", "1411", "1441", "1525", "1690", // out of range, cut, malformed
		"1300", "1977", "3140", "3141", "3988", "4079", // character sets, JSON
		"1118", "1153", "1301", // too large: the row, the packet, a result
		"1526", "1748", // no partition for it
		"1369", "3819", "4025", // CHECK OPTION, CHECK of MySQL, CHECK of MariaDB
		"1644": // a trigger's SIGNAL
		return BadRow
	case "1044", "1045", "1142", "1143", "1227", "1370", "1698", // rights
		"1049", "1051", "1054", "1109", "1146", "1305", "1932", // no such database, column, table, function
		"1064", "1110", "1136", "1235", "1267", "1270", "1271", "1295", // the statement
		"1288", "1347", "1348", "1356", "1362", "1364", "1471", "1906", "3105", // a view, a generated column, a column without default
		"1030", "1031", "1286": // the storage engine
		return BadSchema
	}
	return Transient
}

func (sqlite) classify(err error, code string) Class {
	switch code {
	case "19": // CONSTRAINT, also for a type that a STRICT table refuses
		if strings.Contains(err.Error(), "FOREIGN KEY") {
			return BadReference
		}
		return BadRow
	case "18", "20": // TOOBIG, MISMATCH
		return BadRow
	case "1", "3", "23", "25", "26": // ERROR as for what is not there, PERM, AUTH, RANGE, NOTADB
		return BadSchema
	}
	return Transient
}
