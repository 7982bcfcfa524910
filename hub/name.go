package hub

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
)

// Name says which files of which repository are meant.
type Name struct {
	Repo     string   // "org/name", or "name" for the few that have no owner
	Revision string   // branch, tag or commit; "" is main
	Quant    string   // e.g. "Q4_K_M": which GGUF file; "" lets the rule of Pull choose
	Files    []string // names or patterns of files instead of the rule, e.g. "*.json"
	// Tokenizer asks for the files a tokenizer is read from, and no weights
	// where these lie apart.
	Tokenizer bool
}

// String prints the name as ParseName reads it.
func (n Name) String() string {
	s := "hf.co/" + n.Repo
	if n.Revision != "" {
		s += "@" + n.Revision
	}
	switch {
	case n.Quant != "":
		s += ":" + n.Quant
	case len(n.Files) == 1:
		s += ":" + n.Files[0]
	}
	return s
}

// At returns the name at another revision.
func (n Name) At(revision string) (Name, error) {
	if err := checkRevision(revision); err != nil {
		return Name{}, fmt.Errorf("hub: %w", err)
	}
	n.Revision = revision
	return n, nil
}

// revision returns the revision that is asked for.
func (n Name) revision() string {
	if n.Revision == "" {
		return "main"
	}
	return n.Revision
}

// hosts are the names of the public hub, which the endpoint stands for.
var hosts = []string{"hf.co/", "huggingface.co/", "www.huggingface.co/"}

// IsName reports whether s is meant as a name on the hub: it begins with hf.co/
// or huggingface.co/, also behind https://.
func IsName(s string) bool {
	_, ok := cutHost(s)
	return ok
}

func cutHost(s string) (rest string, ok bool) {
	s = strings.TrimPrefix(s, "https://")
	for _, h := range hosts {
		if len(s) >= len(h) && strings.EqualFold(s[:len(h)], h) {
			return s[len(h):], true
		}
	}
	return s, false
}

// Parts of repositories, quantizations and revisions. The hub allows neither ".."
// nor "--" in a name, the cache's folders rely on it.
func isRepoPart(s string) bool  { return isWord(s, 96, "_", "._-") }
func isQuantPart(s string) bool { return isWord(s, 32, "", "_-") }
func isRevPart(s string) bool   { return isWord(s, 200, "_", "._/-") }

// isWord reports whether s has 1 to most bytes, all of them letters, digits or
// among rest, the first of them a letter, a digit or among first. A regular
// expression with such counts takes milliseconds to compile, in every run.
func isWord(s string, most int, first, rest string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i == 0 && strings.IndexByte(first, c) >= 0, i > 0 && strings.IndexByte(rest, c) >= 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= most
}

// isHex reports whether s is n lower-case hexadecimal digits.
func isHex(s string, n int) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == n
}

// isSHA1 and isSHA256 recognize hashes, isCommit the name of a commit.
func isSHA1(s string) bool   { return isHex(s, 40) }
func isSHA256(s string) bool { return isHex(s, 64) }
func isCommit(s string) bool { return isSHA1(s) || isSHA256(s) }

// ParseName reads REPO[@REVISION][:QUANT], with or without hf.co/ before it.
// Behind the colon may also stand the name of a .gguf file. The address of a
// page of the hub is understood too: https://huggingface.co/org/name,
// …/tree/REVISION, …/blob/REVISION/FILE and …/resolve/REVISION/FILE.
func ParseName(s string) (Name, error) {
	fail := func(format string, args ...any) (Name, error) {
		return Name{}, fmt.Errorf("hub: name %q: %s; want REPO[@REVISION][:QUANT], e.g. hf.co/org/model-GGUF:Q4_K_M", s, fmt.Sprintf(format, args...))
	}
	rest, _ := cutHost(s)
	if strings.Contains(rest, "://") {
		return fail("is an address of another place; HF_ENDPOINT names another hub")
	}
	var n Name
	rest, tag, tagged := strings.Cut(rest, ":")
	rest, rev, pinned := strings.Cut(rest, "@")
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	if len(parts) > 3 && (parts[2] == "blob" || parts[2] == "resolve" || parts[2] == "tree") {
		if tagged || pinned {
			return fail("is an address with more behind it")
		}
		file := strings.Join(parts[4:], "/")
		if plain, err := url.PathUnescape(strings.SplitN(file, "?", 2)[0]); err == nil {
			file = plain
		}
		rev, pinned = parts[3], true
		if file != "" {
			if err := checkFile(file); err != nil {
				return fail("%v", err)
			}
			n.Files = []string{file}
		}
		parts = parts[:2]
	}
	if len(parts) > 2 {
		return fail("has %d parts between slashes, a repository has an owner and a name", len(parts))
	}
	for _, p := range parts {
		if !isRepoPart(p) || strings.Contains(p, "..") || strings.Contains(p, "--") {
			return fail("%q is no part of a repository's name", p)
		}
	}
	n.Repo = strings.Join(parts, "/")
	if pinned {
		if err := checkRevision(rev); err != nil {
			return fail("%v", err)
		}
		n.Revision = rev
	}
	switch {
	case !tagged:
	case strings.HasSuffix(strings.ToLower(tag), ".gguf"):
		if err := checkFile(tag); err != nil {
			return fail("%v", err)
		}
		n.Files = []string{tag}
	case isQuantPart(tag):
		n.Quant = tag
	default:
		return fail("%q is no quantization", tag)
	}
	return n, nil
}

// checkRevision refuses what could lead out of the folder of refs.
func checkRevision(rev string) error {
	if !isRevPart(rev) || !filepath.IsLocal(rev) || path.Clean(rev) != rev {
		return fmt.Errorf("%q is no revision", rev)
	}
	return nil
}

// checkFile refuses names of files that could lead out of their folder, on any
// system.
func checkFile(name string) error {
	if name == "" || len(name) > 1024 || path.Clean(name) != name || !filepath.IsLocal(filepath.FromSlash(name)) ||
		strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") || strings.ContainsAny(name, "\\:\x00\n\r") {
		return fmt.Errorf("%q is no name of a file in a repository", name)
	}
	return nil
}

// folder returns the name of the repository's folder in the cache.
func (n Name) folder() string { return "models--" + strings.ReplaceAll(n.Repo, "/", "--") }

// page returns the address of the repository for people.
func (c *Client) page(repo string) string { return c.Endpoint + "/" + repo }
