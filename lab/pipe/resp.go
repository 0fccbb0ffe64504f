package pipe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// readCommand reads one command, as RESP clients send it: an array of strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

var errProtocol = errors.New("pipe: not RESP")

// readLength reads a line such as *3.
func readLength(r *bufio.Reader, mark byte) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 4 || line[0] != mark {
		return 0, fmt.Errorf("%w: %q", errProtocol, line)
	}
	return strconv.Atoi(string(line[1 : len(line)-2]))
}

// A status is a reply such as OK, and a push what nobody has asked for.
type (
	status string
	push   []any
)

// appendReply writes a reply in RESP 2 or 3: nil, int64, string, error, status, push, or
// a list of these.
func appendReply(b []byte, proto int, reply any) []byte {
	switch v := reply.(type) {
	case nil:
		if proto == 3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "$-1\r\n"...)
	case int64:
		return append(strconv.AppendInt(append(b, ':'), v, 10), "\r\n"...)
	case status:
		return append(append(append(b, '+'), v...), "\r\n"...)
	case error:
		return append(append(append(b, '-'), v.Error()...), "\r\n"...)
	case string:
		b = append(strconv.AppendInt(append(b, '$'), int64(len(v)), 10), "\r\n"...)
		return append(append(b, v...), "\r\n"...)
	case push:
		mark := byte('*')
		if proto == 3 {
			mark = '>'
		}
		return appendList(b, proto, mark, v)
	case []any:
		return appendList(b, proto, '*', v)
	}
	return append(b, "-ERR a reply of no known type\r\n"...)
}

func appendList(b []byte, proto int, mark byte, list []any) []byte {
	b = append(strconv.AppendInt(append(b, mark), int64(len(list)), 10), "\r\n"...)
	for _, v := range list {
		b = appendReply(b, proto, v)
	}
	return b
}
