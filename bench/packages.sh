# Sourced by bench/run.sh and tests/run.sh: what they share.

say() {
    printf '== %s\n' "$*"
}

# Installs those of the named Debian packages that are missing.
need() {
    if ! command -v apt-get >/dev/null; then
        say "no apt-get here: taking it that these are installed: $*"
        return 0
    fi
    missing=
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        *' installed') ;;
        *) missing="$missing $package" ;;
        esac
    done
    [ -n "$missing" ] || return 0
    say "installing:$missing"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || {
            say "neither root nor sudo: install these first:$missing"
            return 1
        }
        as_root='sudo'
    fi
    if [ -z "${updated-}" ]; then
        $as_root apt-get update -qq
        updated=1
    fi
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# Runs a command and shows what it says only when it fails.
quietly() {
    quiet_log=$(mktemp)
    "$@" >"$quiet_log" 2>&1 || {
        cat "$quiet_log"
        rm -f "$quiet_log"
        return 1
    }
    rm -f "$quiet_log"
}

# Configures and builds: build_in FOLDER [MESON OPTION ...]
build_in() {
    folder=$1
    shift
    how=setup
    [ ! -f "$folder/build.ninja" ] || how=configure
    quietly meson "$how" "$folder" "$@" && quietly ninja -C "$folder"
}
