/* Version of libdsconv: the single source, also read by meson.build. */
#ifndef DSCONV_VERSION_H
#define DSCONV_VERSION_H

#define DSCONV_VERSION_MAJOR 0
#define DSCONV_VERSION_MINOR 1
#define DSCONV_VERSION_PATCH 0

/** Version of the shared library's interface; it grows with every incompatible change. */
#define DSCONV_SOVERSION 0

#endif
