// OpenGL and GLUT as programs name them. A program that comes to one of these functions ends with its name: nothing is
// drawn here. Samples that can check a picture without a window, as by -file=, come to none of them.
#pragma once
#include "../../refused.h"

extern "C++" {  // old copies of glut.h include it within extern "C"

using GLenum = unsigned;
using GLuint = unsigned;
using GLbitfield = unsigned;
using GLboolean = unsigned char;
using GLubyte = unsigned char;
using GLchar = char;
using GLbyte = signed char;
using GLshort = short;
using GLushort = unsigned short;
using GLint = int;
using GLsizei = int;
using GLfloat = float;
using GLclampf = float;
using GLdouble = double;
using GLvoid = void;
using GLintptr = long;
using GLsizeiptr = long;
struct GLUquadric;

namespace emu {
// Pointer to a function of OpenGL that a program looks up by name.
template <class R> struct Looked {
    Looked(void* = nullptr) {}
    template <class... A> R operator()(A...) const {
        emu_refuse("a function that glXGetProcAddress looked up", "OpenGL", __builtin_return_address(0));
    }
    explicit operator bool() const { return true; }
};
}  // namespace emu

#define EMU_GL_OF(R, name) EMU_REFUSED(R, name, "OpenGL")
#define EMU_GL(name) EMU_GL_OF(void, name)

enum : unsigned {
    GL_ALPHA = 0x1906, GL_ALWAYS = 0x207, GL_AMBIENT = 0x1200, GL_AMBIENT_AND_DIFFUSE = 0x1602, GL_ARRAY_BUFFER =
    0x8892, GL_BACK = 0x405, GL_BGRA = 0x80e1, GL_BLEND = 0xbe2, GL_BLUE = 0x1905, GL_BUFFER_SIZE = 0x8764, GL_BYTE =
    0x1400, GL_CCW = 0x901, GL_CLAMP = 0x2900, GL_CLAMP_FRAGMENT_COLOR_ARB = 0x891b, GL_CLAMP_TO_BORDER = 0x812d,
    GL_CLAMP_TO_EDGE = 0x812f, GL_CLAMP_VERTEX_COLOR_ARB = 0x891a, GL_COLOR_ARRAY = 0x8076, GL_COLOR_ATTACHMENT0 =
    0x8ce0, GL_COLOR_ATTACHMENT0_EXT = 0x8ce0, GL_COLOR_ATTACHMENT1_EXT = 0x8ce1, GL_COLOR_ATTACHMENT2_EXT = 0x8ce2,
    GL_COLOR_ATTACHMENT3_EXT = 0x8ce3, GL_COLOR_BUFFER_BIT = 0x4000, GL_COLOR_MATERIAL = 0xb57, GL_COMPILE = 0x1300,
    GL_COMPILE_STATUS = 0x8b81, GL_COORD_REPLACE_ARB = 0x8862, GL_CULL_FACE = 0xb44, GL_CW = 0x900, GL_DECAL = 0x2101,
    GL_DEPTH_ATTACHMENT_EXT = 0x8d00, GL_DEPTH_BITS = 0xd56, GL_DEPTH_BUFFER_BIT = 0x100, GL_DEPTH_COMPONENT = 0x1902,
    GL_DEPTH_COMPONENT24 = 0x81a6, GL_DEPTH_COMPONENT24_ARB = 0x81a6, GL_DEPTH_TEST = 0xb71, GL_DEPTH_TEXTURE_MODE =
    0x884b, GL_DIFFUSE = 0x1201, GL_DOUBLE = 0x140a, GL_DYNAMIC_COPY = 0x88ea, GL_DYNAMIC_DRAW = 0x88e8,
    GL_DYNAMIC_DRAW_ARB = 0x88e8, GL_DYNAMIC_READ = 0x88e9, GL_ELEMENT_ARRAY_BUFFER = 0x8893,
    GL_ELEMENT_ARRAY_BUFFER_ARB = 0x8893, GL_EMISSION = 0x1600, GL_EQUAL = 0x202, GL_EXTENSIONS = 0x1f03, GL_FALSE =
    0, GL_FILL = 0x1b02, GL_FLAT = 0x1d00, GL_FLOAT = 0x1406, GL_FOG = 0xb60, GL_FRAGMENT_PROGRAM_ARB = 0x8804,
    GL_FRAGMENT_SHADER = 0x8b30, GL_FRAMEBUFFER = 0x8d40, GL_FRAMEBUFFER_ATTACHMENT_OBJECT_NAME_EXT = 0x8cd1,
    GL_FRAMEBUFFER_ATTACHMENT_OBJECT_TYPE_EXT = 0x8cd0, GL_FRAMEBUFFER_ATTACHMENT_TEXTURE_3D_ZOFFSET_EXT = 0x8cd4,
    GL_FRAMEBUFFER_ATTACHMENT_TEXTURE_CUBE_MAP_FACE_EXT = 0x8cd3, GL_FRAMEBUFFER_ATTACHMENT_TEXTURE_LEVEL_EXT =
    0x8cd2, GL_FRAMEBUFFER_BINDING_EXT = 0x8ca6, GL_FRAMEBUFFER_COMPLETE = 0x8cd5, GL_FRAMEBUFFER_COMPLETE_EXT =
    0x8cd5, GL_FRAMEBUFFER_EXT = 0x8d40, GL_FRAMEBUFFER_INCOMPLETE_ATTACHMENT_EXT = 0x8cd6,
    GL_FRAMEBUFFER_INCOMPLETE_DIMENSIONS_EXT = 0x8cd9, GL_FRAMEBUFFER_INCOMPLETE_DRAW_BUFFER_EXT = 0x8cdb,
    GL_FRAMEBUFFER_INCOMPLETE_FORMATS_EXT = 0x8cda, GL_FRAMEBUFFER_INCOMPLETE_MISSING_ATTACHMENT_EXT = 0x8cd7,
    GL_FRAMEBUFFER_INCOMPLETE_READ_BUFFER_EXT = 0x8cdc, GL_FRAMEBUFFER_UNSUPPORTED_EXT = 0x8cdd, GL_FRONT = 0x404,
    GL_FRONT_AND_BACK = 0x408, GL_GENERATE_MIPMAP_SGIS = 0x8191, GL_GEOMETRY_INPUT_TYPE_EXT = 0x8ddb,
    GL_GEOMETRY_OUTPUT_TYPE_EXT = 0x8ddc, GL_GEOMETRY_SHADER_EXT = 0x8dd9, GL_GEOMETRY_VERTICES_OUT_EXT = 0x8dda,
    GL_GREATER = 0x204, GL_GREEN = 0x1904, GL_INFO_LOG_LENGTH = 0x8b84, GL_INT = 0x1404, GL_INVALID_ENUM = 0x500,
    GL_INVALID_FRAMEBUFFER_OPERATION = 0x506, GL_INVALID_OPERATION = 0x502, GL_INVALID_VALUE = 0x501, GL_LEQUAL =
    0x203, GL_LESS = 0x201, GL_LIGHT0 = 0x4000, GL_LIGHT1 = 0x4001, GL_LIGHTING = 0xb50, GL_LIGHT_MODEL_AMBIENT =
    0xb53, GL_LINE = 0x1b01, GL_LINEAR = 0x2601, GL_LINEAR_MIPMAP_LINEAR = 0x2703, GL_LINES = 1, GL_LINE_LOOP = 2,
    GL_LINE_SMOOTH = 0xb20, GL_LINE_STRIP = 3, GL_LINK_STATUS = 0x8b82, GL_LUMINANCE = 0x1909, GL_LUMINANCE16F_ARB =
    0x881e, GL_LUMINANCE8 = 0x8040, GL_MAX_COLOR_ATTACHMENTS_EXT = 0x8cdf, GL_MAX_RENDERBUFFER_SIZE_EXT = 0x84e8,
    GL_MODELVIEW = 0x1700, GL_MODELVIEW_MATRIX = 0xba6, GL_MODULATE = 0x2100, GL_MULTISAMPLE = 0x809d, GL_NEAREST =
    0x2600, GL_NEVER = 0x200, GL_NONE = 0, GL_NORMALIZE = 0xba1, GL_NORMAL_ARRAY = 0x8075, GL_NO_ERROR = 0, GL_ONE =
    1, GL_ONE_MINUS_DST_ALPHA = 0x305, GL_ONE_MINUS_DST_COLOR = 0x307, GL_ONE_MINUS_SRC_ALPHA = 0x303,
    GL_ONE_MINUS_SRC_COLOR = 0x301, GL_OUT_OF_MEMORY = 0x505, GL_PACK_ALIGNMENT = 0xd05, GL_PIXEL_PACK_BUFFER =
    0x88eb, GL_PIXEL_PACK_BUFFER_ARB = 0x88eb, GL_PIXEL_UNPACK_BUFFER = 0x88ec, GL_PIXEL_UNPACK_BUFFER_ARB = 0x88ec,
    GL_POINTS = 0, GL_POINT_SMOOTH = 0xb10, GL_POINT_SPRITE_ARB = 0x8861, GL_POLYGON = 9, GL_POSITION = 0x1203,
    GL_PROGRAM_ERROR_POSITION_ARB = 0x864b, GL_PROGRAM_ERROR_STRING_ARB = 0x8874, GL_PROGRAM_FORMAT_ASCII_ARB =
    0x8875, GL_PROJECTION = 0x1701, GL_PROJECTION_MATRIX = 0xba7, GL_QUADS = 7, GL_QUAD_STRIP = 8, GL_R32F = 0x822e,
    GL_READ_ONLY = 0x88b8, GL_READ_WRITE = 0x88ba, GL_RED = 0x1903, GL_RED_BITS = 0xd52, GL_RENDERBUFFER = 0x8d41,
    GL_RENDERBUFFER_BINDING_EXT = 0x8ca7, GL_RENDERBUFFER_EXT = 0x8d41, GL_RENDERER = 0x1f01, GL_REPEAT = 0x2901,
    GL_REPLACE = 0x1e01, GL_RGB = 0x1907, GL_RGB8 = 0x8051, GL_RGBA = 0x1908, GL_RGBA16F = 0x881a, GL_RGBA16F_ARB =
    0x881a, GL_RGBA32F = 0x8814, GL_RGBA32F_ARB = 0x8814, GL_RGBA8 = 0x8058, GL_RGBA8UI_EXT = 0x8d7c,
    GL_RGBA_INTEGER_EXT = 0x8d99, GL_SCISSOR_TEST = 0xc11, GL_SHININESS = 0x1601, GL_SHORT = 0x1402, GL_SMOOTH =
    0x1d01, GL_SPECULAR = 0x1202, GL_SRC_ALPHA = 0x302, GL_STACK_OVERFLOW = 0x503, GL_STACK_UNDERFLOW = 0x504,
    GL_STATIC_COPY = 0x88e6, GL_STATIC_DRAW = 0x88e4, GL_STATIC_READ = 0x88e5, GL_STENCIL_BUFFER_BIT = 0x400,
    GL_STENCIL_TEST = 0xb90, GL_STREAM_COPY = 0x88e2, GL_STREAM_DRAW = 0x88e0, GL_STREAM_DRAW_ARB = 0x88e0,
    GL_STREAM_READ = 0x88e1, GL_TEXTURE = 0x1702, GL_TEXTURE0 = 0x84c0, GL_TEXTURE1 = 0x84c1, GL_TEXTURE_1D = 0xde0,
    GL_TEXTURE_2D = 0xde1, GL_TEXTURE_3D = 0x806f, GL_TEXTURE_BORDER_COLOR = 0x1004, GL_TEXTURE_BUFFER_EXT = 0x8c2a,
    GL_TEXTURE_COORD_ARRAY = 0x8078, GL_TEXTURE_ENV = 0x2300, GL_TEXTURE_ENV_MODE = 0x2200, GL_TEXTURE_MAG_FILTER =
    0x2800, GL_TEXTURE_MAX_ANISOTROPY_EXT = 0x84fe, GL_TEXTURE_MIN_FILTER = 0x2801, GL_TEXTURE_RECTANGLE_ARB = 0x84f5,
    GL_TEXTURE_WRAP_R = 0x8072, GL_TEXTURE_WRAP_S = 0x2802, GL_TEXTURE_WRAP_T = 0x2803, GL_TRIANGLES = 4,
    GL_TRIANGLE_FAN = 6, GL_TRIANGLE_STRIP = 5, GL_TRUE = 1, GL_UNPACK_ALIGNMENT = 0xcf5, GL_UNSIGNED_BYTE = 0x1401,
    GL_UNSIGNED_INT = 0x1405, GL_UNSIGNED_SHORT = 0x1403, GL_VENDOR = 0x1f00, GL_VERSION = 0x1f02, GL_VERSION_1_3 = 1,
    GL_VERTEX_ARRAY = 0x8074, GL_VERTEX_PROGRAM_POINT_SIZE = 0x8642, GL_VERTEX_PROGRAM_POINT_SIZE_NV = 0x8642,
    GL_VERTEX_SHADER = 0x8b31, GL_VIEWPORT = 0xba2, GL_WRITE_ONLY = 0x88b9, GL_ZERO = 0
};
enum : unsigned {
    GLUT_KEY_F1 = 0x0001, GLUT_KEY_F2 = 0x0002, GLUT_KEY_F3 = 0x0003, GLUT_KEY_F4 = 0x0004, GLUT_KEY_F5 = 0x0005,
    GLUT_KEY_F6 = 0x0006, GLUT_KEY_F7 = 0x0007, GLUT_KEY_F8 = 0x0008, GLUT_KEY_F9 = 0x0009, GLUT_KEY_F10 = 0x000A,
    GLUT_KEY_F11 = 0x000B, GLUT_KEY_F12 = 0x000C, GLUT_KEY_LEFT = 0x0064, GLUT_KEY_UP = 0x0065, GLUT_KEY_RIGHT =
    0x0066, GLUT_KEY_DOWN = 0x0067, GLUT_KEY_PAGE_UP = 0x0068, GLUT_KEY_PAGE_DOWN = 0x0069, GLUT_KEY_HOME = 0x006A,
    GLUT_KEY_END = 0x006B, GLUT_KEY_INSERT = 0x006C, GLUT_LEFT_BUTTON = 0x0000, GLUT_MIDDLE_BUTTON = 0x0001,
    GLUT_RIGHT_BUTTON = 0x0002, GLUT_DOWN = 0x0000, GLUT_UP = 0x0001, GLUT_LEFT = 0x0000, GLUT_ENTERED = 0x0001,
    GLUT_RGB = 0x0000, GLUT_RGBA = 0x0000, GLUT_SINGLE = 0x0000, GLUT_DOUBLE = 0x0002, GLUT_ALPHA = 0x0008, GLUT_DEPTH
    = 0x0010, GLUT_STENCIL = 0x0020, GLUT_MULTISAMPLE = 0x0080, GLUT_WINDOW_WIDTH = 0x0066, GLUT_WINDOW_HEIGHT =
    0x0067, GLUT_SCREEN_WIDTH = 0x00C8, GLUT_SCREEN_HEIGHT = 0x00C9, GLUT_SCREEN_WIDTH_MM = 0x00CA,
    GLUT_SCREEN_HEIGHT_MM = 0x00CB, GLUT_ELAPSED_TIME = 0x02BC, GLUT_ACTIVE_SHIFT = 0x0001, GLUT_ACTIVE_CTRL = 0x0002,
    GLUT_ACTIVE_ALT = 0x0004, GLUT_KEY_REPEAT_OFF = 0x0000, GLUT_KEY_REPEAT_ON = 0x0001, GLUT_KEY_REPEAT_DEFAULT =
    0x0002
};
#define GLUT_BITMAP_8_BY_13 nullptr
#define GLUT_BITMAP_9_BY_15 nullptr
#define GLUT_BITMAP_HELVETICA_10 nullptr
#define GLUT_BITMAP_HELVETICA_12 nullptr
#define GLUT_BITMAP_HELVETICA_18 nullptr
#define GLUT_BITMAP_TIMES_ROMAN_10 nullptr
#define GLUT_BITMAP_TIMES_ROMAN_24 nullptr

EMU_GL(glBegin) EMU_GL(glBindTexture) EMU_GL(glBitmap) EMU_GL(glBlendFunc) EMU_GL(glCallList) EMU_GL(glCallLists)
EMU_GL(glClear) EMU_GL(glClearAccum) EMU_GL(glClearColor) EMU_GL(glClearDepth) EMU_GL(glClearIndex)
EMU_GL(glClearStencil) EMU_GL(glColor3d) EMU_GL(glColor3dv) EMU_GL(glColor3f) EMU_GL(glColor3fv) EMU_GL(glColor3i)
EMU_GL(glColor3iv) EMU_GL(glColor4d) EMU_GL(glColor4dv) EMU_GL(glColor4f) EMU_GL(glColor4fv) EMU_GL(glColor4i)
EMU_GL(glColor4iv) EMU_GL(glColorMask) EMU_GL(glColorPointer) EMU_GL(glCopyPixels) EMU_GL(glCopyTexImage1D)
EMU_GL(glCopyTexImage2D) EMU_GL(glCopyTexSubImage1D) EMU_GL(glCopyTexSubImage2D) EMU_GL(glCullFace)
EMU_GL(glDeleteTextures) EMU_GL(glDepthFunc) EMU_GL(glDepthMask) EMU_GL(glDepthRange) EMU_GL(glDisable)
EMU_GL(glDisableClientState) EMU_GL(glDrawArrays) EMU_GL(glDrawBuffer) EMU_GL(glDrawElements) EMU_GL(glDrawPixels)
EMU_GL(glEnable) EMU_GL(glEnableClientState) EMU_GL(glEnd) EMU_GL(glEndList) EMU_GL(glFinish) EMU_GL(glFlush)
EMU_GL(glFogf) EMU_GL(glFogfv) EMU_GL(glFogi) EMU_GL(glFogiv) EMU_GL(glFrontFace) EMU_GL(glFrustum)
EMU_GL(glGenTextures) EMU_GL(glGetBooleanv) EMU_GL(glGetClipPlane) EMU_GL(glGetDoublev) EMU_GL(glGetFloatv)
EMU_GL(glGetIntegerv) EMU_GL(glGetLightfv) EMU_GL(glGetLightiv) EMU_GL(glGetMapdv) EMU_GL(glGetMapfv)
EMU_GL(glGetMapiv) EMU_GL(glGetMaterialfv) EMU_GL(glGetMaterialiv) EMU_GL(glGetPixelMapfv) EMU_GL(glGetPixelMapuiv)
EMU_GL(glGetPixelMapusv) EMU_GL(glGetPointerv) EMU_GL(glGetPolygonStipple) EMU_GL(glGetTexEnvfv) EMU_GL(glGetTexEnviv)
EMU_GL(glGetTexGendv) EMU_GL(glGetTexGenfv) EMU_GL(glGetTexGeniv) EMU_GL(glGetTexImage)
EMU_GL(glGetTexLevelParameterfv) EMU_GL(glGetTexLevelParameteriv) EMU_GL(glGetTexParameterfv)
EMU_GL(glGetTexParameteriv) EMU_GL(glHint) EMU_GL(glLightModelf) EMU_GL(glLightModelfv) EMU_GL(glLightModeli)
EMU_GL(glLightModeliv) EMU_GL(glLightf) EMU_GL(glLightfv) EMU_GL(glLighti) EMU_GL(glLightiv) EMU_GL(glLineWidth)
EMU_GL(glLoadIdentity) EMU_GL(glLoadMatrixd) EMU_GL(glLoadMatrixf) EMU_GL(glLoadName) EMU_GL(glMaterialf)
EMU_GL(glMaterialfv) EMU_GL(glMateriali) EMU_GL(glMaterialiv) EMU_GL(glMatrixMode) EMU_GL(glMultMatrixd)
EMU_GL(glMultMatrixf) EMU_GL(glNewList) EMU_GL(glNormal3d) EMU_GL(glNormal3dv) EMU_GL(glNormal3f) EMU_GL(glNormal3fv)
EMU_GL(glNormal3i) EMU_GL(glNormal3iv) EMU_GL(glNormalPointer) EMU_GL(glOrtho) EMU_GL(glPixelMapfv)
EMU_GL(glPixelMapuiv) EMU_GL(glPixelMapusv) EMU_GL(glPixelStoref) EMU_GL(glPixelStorei) EMU_GL(glPixelTransferf)
EMU_GL(glPixelTransferi) EMU_GL(glPixelZoom) EMU_GL(glPointSize) EMU_GL(glPolygonMode) EMU_GL(glPolygonOffset)
EMU_GL(glPolygonStipple) EMU_GL(glPopAttrib) EMU_GL(glPopClientAttrib) EMU_GL(glPopMatrix) EMU_GL(glPopName)
EMU_GL(glPushAttrib) EMU_GL(glPushClientAttrib) EMU_GL(glPushMatrix) EMU_GL(glPushName) EMU_GL(glRasterPos2d)
EMU_GL(glRasterPos2dv) EMU_GL(glRasterPos2f) EMU_GL(glRasterPos2fv) EMU_GL(glRasterPos2i) EMU_GL(glRasterPos2iv)
EMU_GL(glRasterPos2s) EMU_GL(glRasterPos2sv) EMU_GL(glRasterPos3d) EMU_GL(glRasterPos3dv) EMU_GL(glRasterPos3f)
EMU_GL(glRasterPos3fv) EMU_GL(glRasterPos3i) EMU_GL(glRasterPos3iv) EMU_GL(glRasterPos3s) EMU_GL(glRasterPos3sv)
EMU_GL(glRasterPos4d) EMU_GL(glRasterPos4dv) EMU_GL(glRasterPos4f) EMU_GL(glRasterPos4fv) EMU_GL(glRasterPos4i)
EMU_GL(glRasterPos4iv) EMU_GL(glRasterPos4s) EMU_GL(glRasterPos4sv) EMU_GL(glReadBuffer) EMU_GL(glReadPixels)
EMU_GL(glRectf) EMU_GL(glRotated) EMU_GL(glRotatef) EMU_GL(glScaled) EMU_GL(glScalef) EMU_GL(glScissor)
EMU_GL(glShadeModel) EMU_GL(glStencilFunc) EMU_GL(glStencilMask) EMU_GL(glStencilOp) EMU_GL(glTexCoord1d)
EMU_GL(glTexCoord1dv) EMU_GL(glTexCoord1f) EMU_GL(glTexCoord1fv) EMU_GL(glTexCoord1i) EMU_GL(glTexCoord1iv)
EMU_GL(glTexCoord1s) EMU_GL(glTexCoord1sv) EMU_GL(glTexCoord2d) EMU_GL(glTexCoord2dv) EMU_GL(glTexCoord2f)
EMU_GL(glTexCoord2fv) EMU_GL(glTexCoord2i) EMU_GL(glTexCoord2iv) EMU_GL(glTexCoord2s) EMU_GL(glTexCoord2sv)
EMU_GL(glTexCoord3d) EMU_GL(glTexCoord3dv) EMU_GL(glTexCoord3f) EMU_GL(glTexCoord3fv) EMU_GL(glTexCoord3i)
EMU_GL(glTexCoord3iv) EMU_GL(glTexCoord3s) EMU_GL(glTexCoord3sv) EMU_GL(glTexCoord4d) EMU_GL(glTexCoord4dv)
EMU_GL(glTexCoord4f) EMU_GL(glTexCoord4fv) EMU_GL(glTexCoord4i) EMU_GL(glTexCoord4iv) EMU_GL(glTexCoord4s)
EMU_GL(glTexCoord4sv) EMU_GL(glTexCoordPointer) EMU_GL(glTexEnvf) EMU_GL(glTexEnvfv) EMU_GL(glTexEnvi)
EMU_GL(glTexEnviv) EMU_GL(glTexGend) EMU_GL(glTexGendv) EMU_GL(glTexGenf) EMU_GL(glTexGenfv) EMU_GL(glTexGeni)
EMU_GL(glTexGeniv) EMU_GL(glTexImage1D) EMU_GL(glTexImage2D) EMU_GL(glTexParameterf) EMU_GL(glTexParameterfv)
EMU_GL(glTexParameteri) EMU_GL(glTexParameteriv) EMU_GL(glTexSubImage1D) EMU_GL(glTexSubImage2D) EMU_GL(glTranslated)
EMU_GL(glTranslatef) EMU_GL(glVertex2d) EMU_GL(glVertex2dv) EMU_GL(glVertex2f) EMU_GL(glVertex2fv) EMU_GL(glVertex2i)
EMU_GL(glVertex2iv) EMU_GL(glVertex3d) EMU_GL(glVertex3dv) EMU_GL(glVertex3f) EMU_GL(glVertex3fv) EMU_GL(glVertex3i)
EMU_GL(glVertex3iv) EMU_GL(glVertex4d) EMU_GL(glVertex4dv) EMU_GL(glVertex4f) EMU_GL(glVertex4fv) EMU_GL(glVertex4i)
EMU_GL(glVertex4iv) EMU_GL(glVertexPointer) EMU_GL(glViewport)
EMU_GL(glAccum) EMU_GL(glAlphaFunc) EMU_GL(glArrayElement) EMU_GL(glClipPlane) EMU_GL(glColorMaterial)
EMU_GL(glDeleteLists) EMU_GL(glEdgeFlag) EMU_GL(glEdgeFlagPointer) EMU_GL(glEvalCoord1d) EMU_GL(glEvalCoord1f)
EMU_GL(glEvalCoord2d) EMU_GL(glEvalCoord2f) EMU_GL(glEvalMesh1) EMU_GL(glEvalMesh2) EMU_GL(glEvalPoint1)
EMU_GL(glEvalPoint2) EMU_GL(glFeedbackBuffer) EMU_GL(glIndexMask) EMU_GL(glIndexPointer) EMU_GL(glIndexd)
EMU_GL(glIndexf) EMU_GL(glIndexi) EMU_GL(glInitNames) EMU_GL(glInterleavedArrays) EMU_GL(glLineStipple)
EMU_GL(glListBase) EMU_GL(glLogicOp) EMU_GL(glMap1d) EMU_GL(glMap1f) EMU_GL(glMap2d) EMU_GL(glMap2f)
EMU_GL(glMapGrid1d) EMU_GL(glMapGrid1f) EMU_GL(glMapGrid2d) EMU_GL(glMapGrid2f) EMU_GL(glPassThrough)
EMU_GL(glPrioritizeTextures) EMU_GL(glRectd) EMU_GL(glRecti) EMU_GL(glRects) EMU_GL(glSelectBuffer) EMU_GL(glColor3b)
EMU_GL(glColor3bv) EMU_GL(glColor3s) EMU_GL(glColor3ub) EMU_GL(glColor3ubv) EMU_GL(glColor3ui) EMU_GL(glColor3us)
EMU_GL(glColor4b) EMU_GL(glColor4ub) EMU_GL(glColor4ubv) EMU_GL(glColor4ui) EMU_GL(glNormal3b) EMU_GL(glNormal3s)
EMU_GL(glVertex2s) EMU_GL(glVertex3s) EMU_GL(glVertex4s) EMU_GL(glVertex2sv) EMU_GL(glVertex3sv)
EMU_GL_OF(GLenum, glGetError) EMU_GL_OF(GLuint, glGenLists) EMU_GL_OF(GLboolean, glIsEnabled)
EMU_GL_OF(GLboolean, glIsTexture) EMU_GL_OF(GLboolean, glIsList) EMU_GL_OF(GLint, glRenderMode)
EMU_GL_OF(GLboolean, glAreTexturesResident) EMU_GL_OF(const GLubyte*, glGetString)

EMU_GL(glutAddMenuEntry) EMU_GL(glutAddSubMenu) EMU_GL(glutAttachMenu) EMU_GL(glutBitmapCharacter)
EMU_GL(glutBitmapString) EMU_GL(glutChangeToMenuEntry) EMU_GL(glutChangeToSubMenu) EMU_GL(glutCloseFunc)
EMU_GL(glutCopyColormap) EMU_GL(glutDestroyMenu) EMU_GL(glutDestroyWindow) EMU_GL(glutDetachMenu)
EMU_GL(glutDisplayFunc) EMU_GL(glutEntryFunc) EMU_GL(glutEstablishOverlay) EMU_GL(glutForceJoystickFunc)
EMU_GL(glutFullScreen) EMU_GL(glutHideOverlay) EMU_GL(glutHideWindow) EMU_GL(glutIconifyWindow) EMU_GL(glutIdleFunc)
EMU_GL(glutIgnoreKeyRepeat) EMU_GL(glutInit) EMU_GL(glutInitDisplayMode) EMU_GL(glutInitDisplayString)
EMU_GL(glutInitWindowPosition) EMU_GL(glutInitWindowSize) EMU_GL(glutKeyboardFunc) EMU_GL(glutKeyboardUpFunc)
EMU_GL(glutLeaveGameMode) EMU_GL(glutLeaveMainLoop) EMU_GL(glutMainLoop) EMU_GL(glutMainLoopEvent)
EMU_GL(glutMenuDestroyFunc) EMU_GL(glutMenuStateFunc) EMU_GL(glutMenuStatusFunc) EMU_GL(glutMotionFunc)
EMU_GL(glutMouseFunc) EMU_GL(glutMouseWheelFunc) EMU_GL(glutOverlayDisplayFunc) EMU_GL(glutPassiveMotionFunc)
EMU_GL(glutPopWindow) EMU_GL(glutPositionWindow) EMU_GL(glutPostOverlayRedisplay) EMU_GL(glutPostRedisplay)
EMU_GL(glutPostWindowOverlayRedisplay) EMU_GL(glutPostWindowRedisplay) EMU_GL(glutPushWindow)
EMU_GL(glutRemoveMenuItem) EMU_GL(glutRemoveOverlay) EMU_GL(glutReportErrors) EMU_GL(glutReshapeFunc)
EMU_GL(glutReshapeWindow) EMU_GL(glutSetColor) EMU_GL(glutSetCursor) EMU_GL(glutSetIconTitle) EMU_GL(glutSetKeyRepeat)
EMU_GL(glutSetMenu) EMU_GL(glutSetMenuData) EMU_GL(glutSetOption) EMU_GL(glutSetWindow) EMU_GL(glutSetWindowData)
EMU_GL(glutSetWindowTitle) EMU_GL(glutSetupVideoResizing) EMU_GL(glutShowOverlay) EMU_GL(glutShowWindow)
EMU_GL(glutSolidCone) EMU_GL(glutSolidCube) EMU_GL(glutSolidCylinder) EMU_GL(glutSolidDodecahedron)
EMU_GL(glutSolidIcosahedron) EMU_GL(glutSolidOctahedron) EMU_GL(glutSolidRhombicDodecahedron)
EMU_GL(glutSolidSierpinskiSponge) EMU_GL(glutSolidSphere) EMU_GL(glutSolidTeapot) EMU_GL(glutSolidTetrahedron)
EMU_GL(glutSolidTorus) EMU_GL(glutSpecialFunc) EMU_GL(glutSpecialUpFunc) EMU_GL(glutStopVideoResizing)
EMU_GL(glutStrokeCharacter) EMU_GL(glutStrokeString) EMU_GL(glutSwapBuffers) EMU_GL(glutTimerFunc)
EMU_GL(glutUseLayer) EMU_GL(glutVisibilityFunc) EMU_GL(glutWMCloseFunc) EMU_GL(glutWarpPointer)
EMU_GL(glutWindowStatusFunc) EMU_GL(glutWireCone) EMU_GL(glutWireCube) EMU_GL(glutWireCylinder)
EMU_GL(glutWireDodecahedron) EMU_GL(glutWireIcosahedron) EMU_GL(glutWireOctahedron)
EMU_GL(glutWireRhombicDodecahedron) EMU_GL(glutWireSierpinskiSponge) EMU_GL(glutWireSphere) EMU_GL(glutWireTeapot)
EMU_GL(glutWireTetrahedron) EMU_GL(glutWireTorus)
EMU_GL_OF(int, glutCreateWindow) EMU_GL_OF(int, glutCreateSubWindow) EMU_GL_OF(int, glutGetWindow) EMU_GL_OF(int,
glutCreateMenu) EMU_GL_OF(int, glutGetMenu) EMU_GL_OF(int, glutGet) EMU_GL_OF(int, glutDeviceGet) EMU_GL_OF(int,
glutGetModifiers) EMU_GL_OF(int, glutLayerGet) EMU_GL_OF(int, glutBitmapWidth) EMU_GL_OF(int, glutStrokeWidth)
EMU_GL_OF(int, glutBitmapLength) EMU_GL_OF(int, glutStrokeLength) EMU_GL_OF(int, glutEnterGameMode) EMU_GL_OF(GLfloat,
glutGetColor) EMU_GL_OF(int, glutExtensionSupported) EMU_GL_OF(int, glutBitmapHeight) EMU_GL_OF(GLfloat,
glutStrokeHeight)

EMU_GL(gluPerspective) EMU_GL(gluLookAt) EMU_GL(gluOrtho2D) EMU_GL(gluSphere) EMU_GL(gluDeleteQuadric)
EMU_GL_OF(GLint, gluUnProject) EMU_GL_OF(GLUquadric*, gluNewQuadric) EMU_GL_OF(const GLubyte*, gluErrorString)
EMU_GL_OF(const GLubyte*, gluErrorStringWIN)

// Later functions: pointers that programs look up, or names of their own.
inline void* glXGetProcAddress(const GLubyte*) { return nullptr; }
inline void* glXGetProcAddressARB(const GLubyte*) { return nullptr; }
using PFNGLACTIVETEXTUREPROC = emu::Looked<void>;
using PFNGLATTACHSHADERPROC = emu::Looked<void>;
using PFNGLBINDBUFFERARBPROC = emu::Looked<void>;
using PFNGLBUFFERDATAARBPROC = emu::Looked<void>;
using PFNGLDELETEBUFFERSARBPROC = emu::Looked<void>;
using PFNGLGENBUFFERSARBPROC = emu::Looked<void>;
using PFNGLBINDBUFFERPROC = emu::Looked<void>;
using PFNGLBINDFRAGDATALOCATIONEXTPROC = emu::Looked<void>;
using PFNGLBINDFRAMEBUFFEREXTPROC = emu::Looked<void>;
using PFNGLBINDPROGRAMARBPROC = emu::Looked<void>;
using PFNGLBINDRENDERBUFFEREXTPROC = emu::Looked<void>;
using PFNGLBUFFERDATAPROC = emu::Looked<void>;
using PFNGLBUFFERSUBDATAPROC = emu::Looked<void>;
using PFNGLCHECKFRAMEBUFFERSTATUSEXTPROC = emu::Looked<GLenum>;
using PFNGLCLAMPCOLORARBPROC = emu::Looked<void>;
using PFNGLCOMPILESHADERPROC = emu::Looked<void>;
using PFNGLCREATEPROGRAMPROC = emu::Looked<GLuint>;
using PFNGLCREATESHADERPROC = emu::Looked<GLuint>;
using PFNGLDELETEBUFFERSPROC = emu::Looked<void>;
using PFNGLDELETEFRAMEBUFFERSEXTPROC = emu::Looked<void>;
using PFNGLDELETEPROGRAMPROC = emu::Looked<void>;
using PFNGLDELETEPROGRAMSARBPROC = emu::Looked<void>;
using PFNGLDELETERENDERBUFFERSEXTPROC = emu::Looked<void>;
using PFNGLDELETESHADERPROC = emu::Looked<void>;
using PFNGLFRAMEBUFFERRENDERBUFFEREXTPROC = emu::Looked<void>;
using PFNGLFRAMEBUFFERTEXTURE1DEXTPROC = emu::Looked<void>;
using PFNGLFRAMEBUFFERTEXTURE2DEXTPROC = emu::Looked<void>;
using PFNGLFRAMEBUFFERTEXTURE3DEXTPROC = emu::Looked<void>;
using PFNGLGENBUFFERSPROC = emu::Looked<void>;
using PFNGLGENERATEMIPMAPEXTPROC = emu::Looked<void>;
using PFNGLGENFRAMEBUFFERSEXTPROC = emu::Looked<void>;
using PFNGLGENPROGRAMSARBPROC = emu::Looked<void>;
using PFNGLGENRENDERBUFFERSEXTPROC = emu::Looked<void>;
using PFNGLGETBUFFERPARAMETERIVPROC = emu::Looked<void>;
using PFNGLGETFRAMEBUFFERATTACHMENTPARAMETERIVEXTPROC = emu::Looked<void>;
using PFNGLGETPROGRAMINFOLOGPROC = emu::Looked<void>;
using PFNGLGETPROGRAMIVPROC = emu::Looked<void>;
using PFNGLGETSHADERINFOLOGPROC = emu::Looked<void>;
using PFNGLGETSHADERIVPROC = emu::Looked<void>;
using PFNGLGETUNIFORMLOCATIONPROC = emu::Looked<GLint>;
using PFNGLLINKPROGRAMPROC = emu::Looked<void>;
using PFNGLMAPBUFFERPROC = emu::Looked<void*>;
using PFNGLPROGRAMPARAMETERIEXTPROC = emu::Looked<void>;
using PFNGLPROGRAMSTRINGARBPROC = emu::Looked<void>;
using PFNGLRENDERBUFFERSTORAGEEXTPROC = emu::Looked<void>;
using PFNGLSECONDARYCOLOR3FVPROC = emu::Looked<void>;
using PFNGLSHADERSOURCEPROC = emu::Looked<void>;
using PFNGLUNIFORM1FPROC = emu::Looked<void>;
using PFNGLUNIFORM1FVPROC = emu::Looked<void>;
using PFNGLUNIFORM1IPROC = emu::Looked<void>;
using PFNGLUNIFORM2FPROC = emu::Looked<void>;
using PFNGLUNIFORM2FVPROC = emu::Looked<void>;
using PFNGLUNIFORM3FPROC = emu::Looked<void>;
using PFNGLUNIFORM3FVPROC = emu::Looked<void>;
using PFNGLUNIFORM4FPROC = emu::Looked<void>;
using PFNGLUNIFORM4FVPROC = emu::Looked<void>;
using PFNGLUNIFORMMATRIX4FVPROC = emu::Looked<void>;
using PFNGLUNMAPBUFFERPROC = emu::Looked<GLboolean>;
using PFNGLUSEPROGRAMPROC = emu::Looked<void>;

}  // extern "C++"
