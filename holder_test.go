package lockkeeper

import (
	"strings"
	"testing"
	"time"
)

// foreignValues are what other programs may keep under a lock's key.
var foreignValues = []string{
	"", "1", "token", "lk1", "lk1:", "lk1::", "lk1:a", "lk1:a:b", "lk1:a:5", "lk1:a:5:6", "lk1:x:0:0:y",
	"lk1:x:0:5:y", "lk1:x:5:0:y", "lk1::5:6:y", "lk1:x:-5:6:y", "lk1:x:5:-6:y", "lk1:x:+5:6:y", "lk1:x:05:6:y",
	"lk1:x:5:06:y", "lk1:x:5e3:6:y", "lk1:x: 5:6:y", "lk1:x:99999999999999999999:6:y", "lk1:x:5:99999999999999999999:y",
	"lk2:x:5:6:y", "LK1:x:5:6:y", " lk1:x:5:6:y", "\x00", "lk1:x:5\n:6:y",
}

func TestParseHolderForeign(t *testing.T) {
	for _, value := range foreignValues {
		if got := parseHolder(value); got != (Holder{Foreign: true}) {
			t.Errorf("%q is read as %+v", value, got)
		}
	}
}

func TestParseHolder(t *testing.T) {
	for _, label := range []string{"", "host/7", "a:b:c", ":", "line\nline", "\x00\xff", "lk1:x:5:6:y"} {
		want := Holder{Owner: "OWNER", Fence: 1796062911501180, Since: time.UnixMicro(1796062911501179), Label: label}
		if got := parseHolder("lk1:OWNER:1796062911501180:1796062911501179:" + label); got != want {
			t.Errorf("label %q: got %+v, want %+v", label, got, want)
		}
	}
}

func TestHolderInWords(t *testing.T) {
	for want, h := range map[string]Holder{
		"nobody":                          {},
		"a holder that is not Lockkeeper": {Foreign: true},
		"host/7 (fence 5)":                {Owner: "x", Fence: 5, Label: "host/7"},
	} {
		if got := h.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// FuzzParseHolder: a value is ours only if it is, byte for byte, what the scripts
// would have written for that holder.
func FuzzParseHolder(f *testing.F) {
	for _, value := range foreignValues {
		f.Add(value)
	}
	f.Add("lk1:OWNER:1796062911501180:1796062911501179:host/7")
	f.Fuzz(func(t *testing.T, value string) {
		h := parseHolder(value)
		if h.Foreign {
			if h != (Holder{Foreign: true}) {
				t.Errorf("%q is foreign and %+v", value, h)
			}
			return
		}
		since := Fence(h.Since.UnixMicro()).String()
		if again := "lk1:" + h.Owner + ":" + h.Fence.String() + ":" + since + ":" + h.Label; again != value {
			t.Errorf("%q is read as %+v, which is %q", value, h, again)
		}
		if h.Owner == "" || strings.Contains(h.Owner, ":") || !h.Fence.Valid() || h.Since.IsZero() {
			t.Errorf("%q is read as %+v", value, h)
		}
	})
}
