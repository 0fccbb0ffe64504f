package lockkeeper

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// valueMark begins every value that Lockkeeper writes: its name and version.
const valueMark = "lk1:"

// A Holder is who holds a lock, as the lock's value on the server says.
type Holder struct {
	Owner   string    // the hold's own random token; "" for a foreign holder
	Fence   Fence     // 0 for a foreign holder
	Since   time.Time // server time of the grant; zero for a foreign holder
	Label   string    // who it is in words, from Config.Label or WithLabel
	Foreign bool      // the value is not ours: a plain SET, or another library
}

// String returns the holder in words.
func (h Holder) String() string {
	switch {
	case h.Foreign:
		return "a holder that is not Lockkeeper"
	case h.Owner == "":
		return "nobody"
	}
	label := h.Label
	if strings.ContainsFunc(label, unicode.IsControl) { // another client's, in whatever language
		label = strconv.Quote(label)
	}
	return label + " (fence " + h.Fence.String() + ")"
}

// parseHolder reads a lock's value: lk1:OWNER:FENCE:SINCE:LABEL. Anything else is
// foreign.
func parseHolder(value string) Holder {
	rest, ours := strings.CutPrefix(value, valueMark)
	if !ours {
		return Holder{Foreign: true}
	}
	part := strings.SplitN(rest, ":", 4)
	if len(part) != 4 || part[0] == "" {
		return Holder{Foreign: true}
	}
	fence, okFence := decimal(part[1])
	since, okSince := decimal(part[2])
	if !okFence || !okSince {
		return Holder{Foreign: true}
	}
	return Holder{Owner: part[0], Fence: Fence(fence), Since: time.UnixMicro(since), Label: part[3]}
}

// decimal reads a positive number in the one way in which the scripts write it.
func decimal(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n > 0 && s == strconv.FormatInt(n, 10)
}
