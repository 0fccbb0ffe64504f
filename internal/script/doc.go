// Package script loads Lua scripts and runs them by their SHA-1, with the source
// as the fallback when the server does not know it (after a restart, a failover
// or SCRIPT FLUSH).
//
// A script's file states its flags in a comment line "-- flags:". Servers from
// Redis 7 on get the script with a shebang line that carries them: a replica then
// refuses it before it runs, instead of running a part that only reads and
// answering "not yours", and a release runs when memory is full. Redis 6.2 and
// the embedded server reject a shebang; they get the same script without it,
// found out once.
package script
