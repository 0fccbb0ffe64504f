// Package value decides what a column holds. A value comes from Redis as a string of
// bytes; it is checked and converted here against the declared column and not by the
// database, so that SQLite, PostgreSQL, MariaDB and MySQL hold the same row, or none of
// them does. What a database would have rounded, cut or stored as something else is
// refused with a reason.
//
//	t, err := value.Parse("decimal(12,2)")
//	v, err := t.Convert("12.5", value.Rules{})   // "12.50"
//	_, err = t.Convert("12.345", value.Rules{})  // "12.345" has more than 2 digits after the point
//
// No number passes through a float, a float64 excepted. Absent, empty and "null" are
// three things: what is absent never gets here and is NULL, and the empty string and the
// text null are values like any other.
//
// [Type.FromDB] reads the values that the drivers of the databases give back, so that
// they can be compared with what Convert gave.
//
// The package is pure: it has no state, no clock and no I/O, and nothing in it panics,
// whatever the value.
package value
