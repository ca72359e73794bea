/* macros.h: names that other people's headers define as macros, and that break whatever uses them.
 *
 * Included after the system's headers, which they break too, and before those of wavetrain. `@` is
 * a token of neither language, so a use in whatever place is an error that names the line.
 */
#ifndef MACROS_H
#define MACROS_H

#undef assert
#undef linux
#undef unix

/* Qt */
#define emit @
#define forever @
#define foreach @
#define signals @
#define slots @
/* Unreal, and AssertMacros.h of macOS */
#define TEXT @
#define PI @
#define check @
#define checkf @
#define checkSlow @
#define ensure @
#define require @
#define verify @
/* X11 */
#define Above @
#define Always @
#define Below @
#define Bool @
#define Complex @
#define False @
#define None @
#define Status @
#define Success @
#define True @
/* windows.h, and what it includes */
#define ABSOLUTE @
#define CALLBACK @
#define CONST @
#define DELETE @
#define DOMAIN @
#define ERROR @
#define FAR @
#define IGNORE @
#define IN @
#define INFINITE @
#define INVALID @
#define NEAR @
#define NO_ERROR @
#define OPAQUE @
#define OPTIONAL @
#define OUT @
#define OVERFLOW @
#define RELATIVE @
#define STRICT @
#define TRANSPARENT @
#define UNDERFLOW @
#define VOID @
#define far @
#define interface @
#define max @
#define min @
#define near @
#define small @
/* <complex.h>, <sys/sysmacros.h>, <curses.h>, compilers */
#define ERR @
#define FALSE @
#define I @
#define OK @
#define TRUE @
#define linux @
#define major @
#define minor @
#define unix @
/* Objective-C, zlib, PostgreSQL, Linux */
#define Assert @
#define Byte @
#define Max @
#define Min @
#define NO @
#define OF @
#define YES @
#define barrier @
#define container_of @
#define fallthrough @
#define lengthof @
#define likely @
#define nil @
#define unlikely @
/* Build flags, logging and testing */
#define ASSERT @
#define ASSERT_EQ @
#define ASYNC @
#define AUTO @
#define BATCH @
#define CAPTURE @
#define CHECK @
#define CPU @
#define CUDA @
#define DCHECK @
#define DEBUG @
#define DEFAULT @
#define DEVICE @
#define DISABLED @
#define EMPTY @
#define ENABLED @
#define END @
#define EXPECT @
#define FAIL @
#define FATAL @
#define FLAGS @
#define GPU @
#define HIP @
#define HOST @
#define INFO @
#define LOG @
#define MAX @
#define MIN @
#define MPI @
#define NONE @
#define PACKED @
#define PAD @
#define REQUIRE @
#define ROCM @
#define SECTION @
#define SIZE @
#define STATIC @
#define TEST @
#define TRACE @
#define TYPE @
#define UNUSED @
#define VERSION @
#define WARN @
#define WARNING @

/* Those that take arguments leave a name alone that is no call: Arduino, traced allocation. */
#define F(x) @
#define abs(x) @
#define assert(x) @
#define bit(x) @
#define free(x) @
#define log(x) @
#define malloc(x) @
#define realloc(x, y) @
#define round(x) @
#ifndef __cplusplus /* where curses.h has functions */
#define box(a, b, c) @
#define clear() @
#define echo() @
#define erase() @
#define refresh() @
#define timeout(x) @
#endif

#endif
